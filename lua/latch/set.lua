-- uses latch/shared, core/act_before
-- Sets the count of a latch that is not set, open or deleted. The setting begins a new generation.
-- This script follows latch/shared.lua and core/act_before.lua.
--
-- KEYS  1 K, 2 O the operations that have run; see latch/shared.lua
-- ARGV  1 act_before  last server time in ms at which this may act
--       2 op      `<client>:<n>`, never used twice
--       3 count   0 to 4294967295; 0 opens it at once
--       4 ttl     ms after which the latch expires, or '' for never
--       5 keep    ms an operation is remembered; the same for all
-- Reply {now, 'set', g}       this op, or an earlier copy of it, set the latch; g = the new
--                             generation, '' for a copy
--       {now, 'refused', ''}  the latch was set before and is not open
--       {now, 'late'}         `act_before` has passed
--       {now, 'kind', kind}   the name is of another kind
-- Cost  O(log n) of n operations remembered: TIME, HMGET, ZSCORE × 2, HSET, PEXPIRE or PERSIST,
--       ZADD, PEXPIRE; with old operations + ZRANGEBYSCORE, ZREM of 32 at most.
--
-- A refusal is remembered too: a late copy must not set the latch after its caller was told of the
-- refusal. Begins with HSET, which a full server refuses.
local key, ops = KEYS[1], KEYS[2]
local op, count, ttl, keep = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local kind, left, last, g, opened = unpack(call('HMGET', key, 'k', 'c', 't', 'g', 'r'))
if kind ~= 'latch:1' and kind then
  return {now, 'kind', kind}
elseif call('ZSCORE', ops, op) then
  return {now, 'set', ''}
elseif call('ZSCORE', ops, op .. '!') then
  return {now, 'refused', ''}
end

local verdict, stamp = 'set', micros
if left and left ~= '0' then
  verdict, op = 'refused', op .. '!'
else
  if last and stamp <= last then
    stamp = string.format('%.0f', last + 1)
  end
  local ends = ttl ~= '' and (now + ttl) .. '' or ''
  if left then
    -- The previous generation has opened.
    opened = with_opened(opened, g, last)
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

remember(ops, op, stamp, keep, micros)
return {now, verdict, verdict == 'set' and stamp or ''}
