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
local f = redis.call('HMGET', KEYS[1], 'k', 'g', 'c', 'n', 'e', 'r')
if f[1] ~= 'latch:1' and f[1] then
  return {now, 'kind', f[1]}
end

local reply = {now, 'unset', '', 0, 0, ''}
if f[3] then
  -- Where time moves during a script, a key outlives its end by the time since the script began.
  reply = {now, 'set', f[2], f[3], f[4], f[5] ~= '' and math.max(f[5] - now, 0) or ''}
end
local opened = f[6] or ''
for i = 1, #ARGV do
  local g = ARGV[i]
  local fate = 'deleted'
  if g == f[2] and f[3] then
    fate = f[3] == '0' and 'open' or 'shut'
  elseif string.find(opened, ' ' .. g .. '-', 1, true) then
    fate = 'open'
  end
  reply[6 + i] = fate
end
return reply
