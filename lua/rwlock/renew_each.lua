-- uses rwlock/renewal
-- Moves the end of n holds of read-write locks, each by itself and of an owner of its own. This
-- script follows rwlock/renewal.lua.
--
-- KEYS  1..n      K of each lock, see rwlock/state.lua
-- ARGV  1 act_before  last server time in ms at which this may act
--       2 client  the part that all owners have in common
--       3 lease   ms from now
--       4 ttl     ms, lease + retention of the token
--       5..       for each lock: owner, `:<n>`, to be appended to the client; side, 'w' or 'r'; the
--                 token or serial of the hold
-- Reply a text of one line per lock, `<now> <verdict>`, with the verdict as in rwlock/renew, or
--       `late` if `act_before` has passed
-- Cost  O(n): TIME, and per lock HMGET, PTTL, PEXPIRE, HSET.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local late = now > ARGV[1] or #ARGV[1] ~= 13

local client, ttl = ARGV[2], ARGV[4]
local ends = (now + ARGV[3]) .. ''
local lines = {}
for i = 1, #KEYS do
  local at = 3 * i + 2
  lines[i] = now .. ' ' .. (late and 'late' or renew(KEYS[i], client .. ARGV[at], ARGV[at + 1], ARGV[at + 2], now, ends, ttl))
end
return table.concat(lines, '\n')
