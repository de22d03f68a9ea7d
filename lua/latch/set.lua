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
    -- The previous generation has opened.
    local opened = with_opened(f[5], f[4], f[3])
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
