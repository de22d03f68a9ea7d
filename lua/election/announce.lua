-- uses core/publish
-- Tells the value of the leader, for others to read. This script follows core/publish.lua.
--
-- KEYS  1 K, the hash of the name; see exclusive/acquire.lua
-- ARGV  1 owner   of the leader, `<client>:<n>`
--       2 token   of its term
--       3 value   may be empty
--       4 verb and 5 channel of the message that somebody leads, `leads <token>`
-- Reply {now, 'announced'}
--       {now, 'gone'}      this term is over; nothing is written
-- Cost  O(1): TIME, HMGET, HSET, PUBLISH.
--
-- Field a is `<token> <value>`. A reader ignores it unless the token is that of the present term,
-- so nobody has to remove it. A late or repeated call writes the same, or nothing.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local key, token = KEYS[1], ARGV[2]
local leader, current, ends = unpack(redis.call('HMGET', key, 'o', 't', 'u'))
if leader ~= ARGV[1] or current ~= token or ends <= now then
  return {now, 'gone'}
end
redis.call('HSET', key, 'a', token .. ' ' .. ARGV[3])
publish(ARGV[4], ARGV[5], 'leads ' .. token)
return {now, 'announced'}
