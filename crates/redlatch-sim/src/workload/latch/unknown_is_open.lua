-- A planted fault: shows a latch, and reports each generation as open that is not listed and older
-- than the present one.
--
-- KEYS  1 K; see latch/shared.lua
-- ARGV  any number of generations
-- Reply {now, 'set', g, left, of, remaining ms or '', fate, …}
--       {now, 'unset', '', 0, 0, '', fate, …}   the latch is not set, or it was deleted
--       {now, 'kind', kind}                     the name is of another kind
--       a fate per generation: 'open' has opened, 'shut' has not, 'deleted' never will
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
  -- On servers whose time moves during a script, a key outlives its expiry until the end of the
  -- script.
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
