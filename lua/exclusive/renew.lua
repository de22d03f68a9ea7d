-- uses $kind/exclusive, exclusive/renewal
-- entries 32 of 1 key, 2 arguments, behind 4
-- Moves the end of n holds, each by itself and of an owner of its own. This script follows
-- exclusive/renewal.lua.
--
-- KEYS  1..n      K of each name
-- ARGV  1 act_before  last server time in ms at which this may act
--       2 client  the part that all owners have in common
--       3 lease   ms from now
--       4 ttl     ms, lease + retention of the token
--       5..       for each name: owner, `:<n>`, to be appended to the client, and the token of the
--                 hold
-- Reply a text of one line per name, `<now> <verdict>`
--       renewed, expired, taken, revoked, gone, kind
--       {now, 'late'}  `act_before` has passed, for all entries
-- Cost  O(n): TIME, and per name HMGET, PEXPIRE, HSET.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
if now > ARGV[1] or #ARGV[1] ~= 13 then
  return {now, 'late'}
end

local client, lease, ttl = ARGV[2], ARGV[3], ARGV[4]
local ends = (now + lease) .. ''
local lines = {}
for i = 1, #KEYS do
  lines[i] = now .. ' ' .. renew(KEYS[i], client .. ARGV[2 * i + 3], ARGV[2 * i + 4], now, ends, ttl)
end
return table.concat(lines, '\n')
