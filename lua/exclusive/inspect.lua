-- uses $kind/exclusive, $like/waiting
-- Shows the holder of a name. Writes nothing. This script follows the waiting.lua of its kind,
-- which has `waiting`.
--
-- KEYS  1 K, then the indexes of its waiters
-- Reply {now, 'free'}
--       {now, 'kind', kind}
--       {now, 'held', owner, count, token, remaining ms, waiters}
-- Cost  O(1): TIME, HMGET, and counting waiters, see the kind.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local f = redis.call('HMGET', KEYS[1], 'k', 'o', 'h', 't', 'u')
if f[1] and f[1] ~= KIND then
  return {now, 'kind', f[1]}
elseif not f[2] or f[5] <= now then
  return {now, 'free'}
end
local _, spaces = string.gsub(f[3], ' ', ' ')
return {now, 'held', f[2], spaces - 1, f[4], f[5] - now, waiting(now)}
