-- uses rwlock/renewal
-- entries 32 of 1 key, 3 arguments, behind 4
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
-- Reply a text of one line per lock, `<now> <verdict>`
--       renewed, expired, taken, revoked, gone, kind
--       {now, 'late'}  `act_before` has passed, for all entries
-- Cost  O(n): TIME, and per lock HMGET, PTTL, PEXPIRE, HSET.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
if now > ARGV[1] or #ARGV[1] ~= 13 then
  return {now, 'late'}
end

local client, ttl = ARGV[2], ARGV[4]
local ends = (now + ARGV[3]) .. ''
local lines = {}
for i = 1, #KEYS do
  local at = 3 * i + 2
  lines[i] = now .. ' ' .. renew(KEYS[i], client .. ARGV[at], ARGV[at + 1], ARGV[at + 2], now, ends, ttl)
end
return table.concat(lines, '\n')
