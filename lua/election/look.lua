-- Shows who leads. Writes nothing.
--
-- KEYS  1 K, the hash of the name; see exclusive/acquire.lua and election/announce.lua
-- Reply {now, 'led', token, remaining ms, announced, value}
--                announced = 1 if the leader has told its value, which may be empty
--       {now, 'vacant', token}   nobody leads; token = of the last term that is remembered, or ''
--       {now, 'kind', kind}      the name is of another kind
-- Cost  O(1): TIME, HMGET.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local kind, leader, token, ends, announced = unpack(redis.call('HMGET', KEYS[1], 'k', 'o', 't', 'u', 'a'))
if kind and kind ~= 'election:1' and kind ~= 'fair_election:1' then
  return {now, 'kind', kind}
elseif not leader or ends <= now then
  return {now, 'vacant', token or ''}
end
local prefix = token .. ' '
if announced and string.sub(announced, 1, #prefix) == prefix then
  return {now, 'led', token, ends - now, 1, string.sub(announced, #prefix + 1)}
end
return {now, 'led', token, ends - now, 0, ''}
