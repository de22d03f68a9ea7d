-- Shows the mark. Writes nothing.
--
-- KEYS  1 M; see fence/shared.lua
-- Reply {now, 'mark', token}
--       {now, 'unset'}        nobody has written
--       {now, 'kind', kind}   the key of the mark has other content
-- Cost  O(1): TIME, HMGET.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local mark = redis.call('HMGET', KEYS[1], 'k', 't')
if mark[1] ~= 'fence:1' and mark[1] then
  return {now, 'kind', mark[1]}
elseif not mark[2] then
  return {now, 'unset'}
end
return {now, 'mark', mark[2]}
