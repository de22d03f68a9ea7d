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
local kind, owner, attempts, token, ends = unpack(redis.call('HMGET', KEYS[1], 'k', 'o', 'h', 't', 'u'))
if kind and kind ~= KIND then
  return {now, 'kind', kind}
elseif not owner or ends <= now then
  return {now, 'free'}
end
local _, spaces = string.gsub(attempts, ' ', ' ')
return {now, 'held', owner, spaces - 1, token, ends - now, waiting(now)}
