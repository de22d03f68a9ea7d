-- uses rwlock/renewal
-- Moves the end of one hold of a read-write lock. This script follows rwlock/renewal.lua.
--
-- KEYS  1 K, see rwlock/state.lua
-- ARGV  1 act_before  last server time in ms at which this may act
--       2 owner   `<client>:<n>`
--       3 lease   ms from now
--       4 ttl     ms, lease + retention of the token
--       5 side    'w' the writer's hold, 'r' a reader's
--       6 id      its token or serial
-- Reply {now, verdict}   renewed, expired, taken, revoked, gone, kind
--       {now, 'late'}    `act_before` has passed
-- Cost  O(1): TIME, HMGET, PTTL, PEXPIRE, HSET.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
if now > ARGV[1] or #ARGV[1] ~= 13 then
  return {now, 'late'}
end
local ends = (now + ARGV[3]) .. ''
return {now, renew(KEYS[1], ARGV[2], ARGV[5], ARGV[6], now, ends, ARGV[4])}
