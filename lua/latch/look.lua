-- Shows a latch, and the state of some of its generations. Writes nothing.
--
-- KEYS  1 K; see latch/shared.lua
-- ARGV  any number of generations
-- Reply {now, 'set', g, left, of, remaining ms or '', fate, …}
--       {now, 'unset', '', 0, 0, '', fate, …}   nobody has set it, or it was deleted
--       {now, 'kind', kind}                     the name is of another kind
--       a fate per generation: 'open' has opened, 'shut' has not, 'deleted' never will
-- Cost  O(generations): TIME, HMGET, and a search of at most 64 entries for each.
--
-- A generation that is not on record as open counts as deleted, since the server may have forgotten
-- that it never opened. The same applies to one that opened before the last 64 open ones.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local kind, present, left, of, ends, opened = unpack(redis.call('HMGET', KEYS[1], 'k', 'g', 'c', 'n', 'e', 'r'))
if kind ~= 'latch:1' and kind then
  return {now, 'kind', kind}
end

local reply = {now, 'unset', '', 0, 0, ''}
if left then
  -- Where time moves during a script, a key outlives its end by the time since the script began.
  reply = {now, 'set', present, left, of, ends ~= '' and math.max(ends - now, 0) or ''}
end
opened = opened or ''
for i = 1, #ARGV do
  local g = ARGV[i]
  local fate = 'deleted'
  if g == present and left then
    fate = left == '0' and 'open' or 'shut'
  elseif string.find(opened, ' ' .. g .. '-', 1, true) then
    fate = 'open'
  end
  reply[6 + i] = fate
end
return reply
