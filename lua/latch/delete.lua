-- uses core/publish, latch/shared, core/act_before
-- Removes a latch, and tells its waiters. This script follows latch/shared.lua and
-- core/act_before.lua.
--
-- KEYS  1 K, 2 O the operations that have run; see latch/shared.lua
-- ARGV  1 act_before  last server time in ms at which this may act
--       2 op      `<client>:<n>`, never used twice
--       3 keep    ms an operation is remembered; the same for all
--       4 trace   ms for which the removed latch is remembered
--       5 verb and 6 channel of the message that the latch is gone, `deleted <g>`
-- Reply {now, 'deleted'}      this op, or an earlier copy of it, removed the latch
--       {now, 'unset'}        there is none
--       {now, 'late'}         `act_before` has passed
--       {now, 'kind', kind}   the name is of another kind
-- Cost  O(log n) of n operations remembered: TIME, HMGET, ZSCORE × 2, PEXPIRE × 2, ZADD, HDEL,
--       HSET, PUBLISH; with old operations + ZRANGEBYSCORE, ZREM of 32 at most.
--
-- The number of the last generation stays for a while, so that the next one is greater, and so does
-- the record of open generations. A refusal is remembered too. Begins with PEXPIRE, which a full
-- server accepts, and then the rest.
local key, ops, op, keep = KEYS[1], KEYS[2], ARGV[2], ARGV[3]
local kind, g, count, last, opened = unpack(call('HMGET', key, 'k', 'g', 'c', 't', 'r'))
if kind ~= 'latch:1' and kind then
  return {now, 'kind', kind}
elseif call('ZSCORE', ops, op) then
  return {now, 'deleted'}
elseif call('ZSCORE', ops, op .. '!') then
  return {now, 'unset'}
end

local stamp = run(ops, op, keep, micros, count, last)
if not stamp then
  return {now, 'unset'}
end

local shut = count ~= '0'
call('HDEL', key, 'c', 'n', 'e')
if shut then
  call('HSET', key, 't', stamp)
else
  call('HSET', key, 't', stamp, 'r', with_opened(opened, g, stamp))
end
call('PEXPIRE', key, ARGV[4])
if shut then
  publish(ARGV[5], ARGV[6], 'deleted ' .. g)
end
return {now, 'deleted'}
