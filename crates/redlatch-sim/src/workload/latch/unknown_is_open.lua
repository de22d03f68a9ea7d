-- A planted fault: shows a latch, and takes each generation that is not listed and older than the
-- present one for opened.
--
-- KEYS  1 K; its fields stand in set.lua
-- ARGV  a generation each, any number of them
-- Reply {now, 'set', g, left, of, remaining ms or '', fate, …}
--       {now, 'unset', '', 0, 0, '', fate, …}   nobody has set it, or it was deleted
--       {now, 'kind', kind}                     the name is something else
--       a fate per generation: 'open' it has opened, 'shut' it has not, 'deleted' it never will
-- Cost  O(generations): TIME, HMGET.
--
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local f = redis.call('HMGET', KEYS[1], 'k', 'g', 'c', 'n', 'e', 'd')
if f[1] ~= 'latch:1' and f[1] then
  return {now, 'kind', f[1]}
end

local reply = {now, 'unset', '', 0, 0, ''}
if f[3] then
  -- Where time moves during a script, a key outlives its end by what has passed since the script
  -- began.
  reply = {now, 'set', f[2], f[3], f[4], f[5] ~= '' and math.max(f[5] - now, 0) or ''}
end
local deleted = f[6] or ' '
local _, count = string.gsub(deleted, '-', '')
local oldest = count >= 8 and string.match(deleted, '%d+') or ''
for i = 1, #ARGV do
  local g = ARGV[i]
  local fate = 'open'
  if not f[2] or g > f[2] or g < oldest or string.find(deleted, ' ' .. g .. '-', 1, true) then
    fate = 'deleted'
  elseif g == f[2] and f[3] and f[3] ~= '0' then
    fate = 'shut'
  end
  reply[6 + i] = fate
end
return reply
