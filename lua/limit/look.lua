-- Shows a rate limiter. Writes nothing.
--
-- KEYS  1 K; see shared.lua
-- Reply {now, 'owes', debt, count, period, ahead, turn}
--                             debt = µs until all tokens are paid; count tokens are paid in period
--                             µs, the rate of the last call, which begins in `ahead` µs.
--                             Another rate begins in `turn` µs
--       {now, 'free'}         nothing is owed, or the key is unused
--       {now, 'kind', kind}   the name is of another kind
-- Cost  O(1): TIME, HMGET.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local kind, d = unpack(redis.call('HMGET', KEYS[1], 'k', 'd'))
if kind ~= 'limit:1' and kind then
  return {now, 'kind', kind}
end
local t, debt, part, count, period, back, turn, since =
  string.match(d or '', '^(%d+) (%d+) (%d+) (%d+) (%d+) %d+ %d+ ?(%d*) ?(%d*) ?(%d*)')
if not t then
  return {now, 'free'}
end
local clock = math.max(time[1] * 1000000 + time[2] + (back == '' and 0 or back), t + 0)
local owed = debt - (clock - t) + (part ~= '0' and 1 or 0)
if owed <= 0 then
  return {now, 'free'}
end

local function left_until(at)
  return math.min(math.max((at == '' and 0 or at) - clock, 0), owed)
end

return {now, 'owes', owed, count, period, left_until(since), left_until(turn)}
