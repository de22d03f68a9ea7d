-- uses core/publish, latch/shared, core/act_before
-- Counts a latch down by n, and opens it at zero. This script follows latch/shared.lua and
-- core/act_before.lua.
--
-- KEYS  1 K, 2 O the operations that have run; see latch/shared.lua
-- ARGV  1 act_before  last server time in ms at which this may act
--       2 op      `<client>:<n>`, never used twice
--       3 n       1 to 4294967295; the excess over the rest is not counted
--       4 keep    ms an operation is remembered; the same for all
--       5 verb and 6 channel of the message that the latch is open, `open <g>`
-- Reply {now, 'counted', left, g}
--                this op has counted, once; g = its generation, or '' if a later one has begun
--                since, which means that it opened: then left is 0
--       {now, 'deleted'}
--                an earlier copy had counted, and its generation was deleted before it opened, or
--                no record that it opened
--       {now, 'unset'}              there is no latch
--       {now, 'late'}               `act_before` has passed
--       {now, 'kind', kind}         the name is of another kind
-- Cost  O(log n) of n operations remembered: TIME, HMGET, ZSCORE × 2, PEXPIRE, ZADD, HSET; the last
--       count-down + PUBLISH; with old operations + ZRANGEBYSCORE, ZREM of 32 at most.
--
-- A refusal is remembered too: a late copy must not count after its caller was told that there is
-- no latch. Begins with PEXPIRE, which a full server accepts, and then the rest.
local key, ops = KEYS[1], KEYS[2]
local op, n, keep = ARGV[2], ARGV[3], ARGV[4]
local kind, g, count, last = unpack(call('HMGET', key, 'k', 'g', 'c', 't'))
if kind ~= 'latch:1' and kind then
  return {now, 'kind', kind}
end

local known = call('ZSCORE', ops, op)
if known then
  -- The time of the count. It lies between the beginnings of its generation and of the next.
  local at = known - keep * 1000
  if count and at >= g + 0 then
    return {now, 'counted', count, g}
  end
  for from, to in string.gmatch(call('HGET', key, 'r') or '', '(%d+)-(%d+)') do
    if at >= from + 0 and at <= to + 0 then
      return {now, 'counted', '0', ''}
    end
  end
  return {now, 'deleted'}
elseif call('ZSCORE', ops, op .. '!') then
  return {now, 'unset'}
end

local stamp = run(ops, op, keep, micros, count, last)
if not stamp then
  return {now, 'unset'}
end

local left = count - n
if left < 0 then
  left = 0
end
call('HSET', key, 'c', left, 't', stamp)
if left == 0 and count ~= '0' then
  publish(ARGV[5], ARGV[6], 'open ' .. g)
end
return {now, 'counted', left, g}
