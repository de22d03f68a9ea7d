-- Sets the count of a latch that is not set, open or deleted. The setting begins a new generation.
--
-- KEYS  1 K, 2 O the operations that have run: sorted set, id -> µs until which it is remembered
-- ARGV  1 by      last server time in ms at which this may act
--       2 op      `<client>:<n>`, never used twice
--       3 count   0 to 4294967295; 0 opens it at once
--       4 ttl     ms after which the latch expires, or '' for never
--       5 keep    ms an operation is remembered; the same for all
-- Reply {now, 'set', g}       this op, or an earlier copy of it, set the latch; g = the new
--                             generation, '' for a copy
--       {now, 'refused', ''}  the latch was set before and is not open
--       {now, 'late'}         `by` has passed
--       {now, 'kind', kind}   the name is of another kind
-- Cost  O(log n) of n operations remembered: TIME, HMGET, ZSCORE × 2, HSET, PEXPIRE or PERSIST,
--       ZADD, PEXPIRE; with old operations + ZRANGEBYSCORE, ZREM of 32 at most.
--
-- A refusal is remembered too: a late copy must not set the latch after its caller was told of the
-- refusal. Begins with HSET, which a full server refuses.
--
-- K  k kind
--    g generation, in µs and rising
--    c count left, '0' once it is open; absent once it was deleted
--    n count it was set to
--    e ms at which it expires, or ''
--    t when an operation last ran, in µs and never falling; no two generations share one
--    r ` <g>-<t> …`, the last 64 generations before the present one that opened, and when an
--      operation last ran in each
-- A generation counts as open only if K says so: the present one by c, an earlier one by r. All
-- others count as deleted, since the server may have forgotten them. Numbers of 16 digits pass
-- through `..` only as text.
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

local key, ops = KEYS[1], KEYS[2]
local op, count, ttl, keep = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local f = call('HMGET', key, 'k', 'c', 't', 'g', 'r')
if f[1] ~= 'latch:1' and f[1] then
  return {now, 'kind', f[1]}
elseif call('ZSCORE', ops, op) then
  return {now, 'set', ''}
elseif call('ZSCORE', ops, op .. '!') then
  return {now, 'refused', ''}
end

local verdict, stamp = 'set', micros
if f[2] and f[2] ~= '0' then
  verdict, op = 'refused', op .. '!'
else
  if f[3] and stamp <= f[3] then
    stamp = string.format('%.0f', f[3] + 1)
  end
  local ends = ttl ~= '' and (now + ttl) .. '' or ''
  if f[2] then
    -- The previous generation has opened. One entry has 34 characters.
    local opened = string.sub((f[5] or ' ') .. f[4] .. '-' .. f[3] .. ' ', -34 * 64 - 1)
    call('HSET', key, 'k', 'latch:1', 'g', stamp, 'c', count, 'n', count, 'e', ends, 't', stamp, 'r', opened)
  else
    call('HSET', key, 'k', 'latch:1', 'g', stamp, 'c', count, 'n', count, 'e', ends, 't', stamp)
  end
  if ttl ~= '' then
    call('PEXPIRE', key, ttl)
  else
    call('PERSIST', key)
  end
end

-- After this PEXPIRE, a full server accepts the rest.
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
return {now, verdict, verdict == 'set' and stamp or ''}
