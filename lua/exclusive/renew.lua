-- uses $kind/exclusive, exclusive/renewal
-- Moves the end of m holds of one owner, each by itself. This script follows exclusive/renewal.lua.
--
-- KEYS  1..m      K of each name
-- ARGV  1 by      last server time in ms at which this may act
--       2 owner   `<client>:<n>`
--       3 lease   ms from now
--       4 ttl     ms, lease + retention of the token
--       5..4+m    token of each hold
-- Reply {now, verdict, …}  one item per name: renewed, expired, taken, revoked, gone, kind
--       {now, 'late'}      `by` has passed
-- Cost  O(m): TIME, and per name HMGET, PEXPIRE, HSET.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
if now > ARGV[1] or #ARGV[1] ~= 13 then
  return {now, 'late'}
end

local owner, lease, ttl = ARGV[2], ARGV[3], ARGV[4]
local ends = (now + lease) .. ''
local reply = {now, 'gone'}
for i = 1, #KEYS do
  reply[1 + i] = renew(KEYS[i], owner, ARGV[4 + i], now, ends, ttl)
end
return reply
