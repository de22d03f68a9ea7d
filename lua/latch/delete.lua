-- Removes a latch, and tells its waiters.
--
-- KEYS  1 K, 2 O the operations that have run; set.lua lists the fields
-- ARGV  1 by      last server time in ms at which this may act
--       2 op      `<client>:<n>`, never used twice
--       3 keep    ms an operation is remembered; the same for all
--       4 trace   ms for which the removed latch is remembered
--       5 verb and 6 channel of the message that the latch is gone, `deleted <g>`
-- Reply {now, 'deleted'}      this op, or an earlier copy of it, removed the latch
--       {now, 'unset'}        there is none
--       {now, 'late'}         `by` has passed
--       {now, 'kind', kind}   the name is of another kind
-- Cost  O(log n) of n operations remembered: TIME, HMGET, ZSCORE × 2, PEXPIRE × 2, ZADD, HDEL,
--       HSET, PUBLISH; with old operations + ZRANGEBYSCORE, ZREM of 32 at most.
--
-- The number of the last generation stays for a while, so that the next one is greater, and so does
-- the record of open generations. A refusal is remembered too. Begins with PEXPIRE, which a full
-- server accepts, and then the rest.
local call = redis.call
local time = call('TIME')
if #time[1] ~= 10 then
  return redis.error_reply('CLOCK the clock of this server is not between 2001 and 2286')
end
local micros = time[1] .. string.sub('00000' .. time[2], -6)
local now = string.sub(micros, 1, 13)
if now > ARGV[1] or #ARGV[1] ~= 13 then
  return {now, 'late'}
end

local key, ops, op, keep = KEYS[1], KEYS[2], ARGV[2], ARGV[3]
local f = call('HMGET', key, 'k', 'g', 'c', 't', 'r')
if f[1] ~= 'latch:1' and f[1] then
  return {now, 'kind', f[1]}
elseif call('ZSCORE', ops, op) then
  return {now, 'deleted'}
elseif call('ZSCORE', ops, op .. '!') then
  return {now, 'unset'}
end

local stamp = micros
if f[4] and f[4] > stamp then
  stamp = f[4]
end
if not f[3] then
  op = op .. '!'
end
local there = call('PEXPIRE', ops, keep)
call('ZADD', ops, stamp + keep * 1000, op)
if there == 0 then
  call('PEXPIRE', ops, keep)
else
  local old = call('ZRANGEBYSCORE', ops, '-inf', micros, 'LIMIT', 0, 32)
  if old[1] then
    call('ZREM', ops, unpack(old))
  end
end
if not f[3] then
  return {now, 'unset'}
end

local shut = f[3] ~= '0'
call('HDEL', key, 'c', 'n', 'e')
if shut then
  call('HSET', key, 't', stamp)
else
  -- One entry has 34 characters.
  call('HSET', key, 't', stamp, 'r', string.sub((f[5] or ' ') .. f[2] .. '-' .. stamp .. ' ', -34 * 64 - 1))
end
call('PEXPIRE', key, ARGV[4])
if shut then
  publish(ARGV[5], ARGV[6], 'deleted ' .. f[2])
end
return {now, 'deleted'}
