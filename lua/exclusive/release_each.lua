-- uses $kind/exclusive, exclusive/plain_free
-- Ends n holds, each for itself. A hold that is not plain, see
-- exclusive/plain_free.lua, is left as it is, and its caller asks again by exclusive/release. This
-- script follows exclusive/plain_free.lua.
--
-- KEYS  1..n      K of each name
-- ARGV  1 client  the part that all attempts have in common
--       2 keep    ms the token is kept after the name is free
--       3..       for each name: attempt, `:<n>`, to be appended to the client, and the token of
--                 the hold
-- Reply a text of one line per name: the reply of exclusive/release as a text, or an empty line if
--       the hold is not plain
-- Cost  O(n): TIME, and per name HMGET, HDEL, and PEXPIRE after a long lease.
--
-- Needs no limit of time: an attempt's id is never used again, so a late or repeated call ends only
-- what that attempt has. A full server accepts all writes.
local call = redis.call
local time = call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local attempts, keep_ms = ' ' .. ARGV[1], ARGV[2]
local keep = (now + keep_ms) .. ''
local released = now .. ' released 0'
local lines = {}
for i = 1, #KEYS do
  local key = KEYS[i]
  -- h attempts, t token, u until, n waiters until
  local f = call('HMGET', key, 'h', 't', 'u', 'n')
  local attempt = attempts .. ARGV[2 * i + 1] .. ' '
  local free = plain_free(key, f[1], f[2], f[3], f[4], attempt, ARGV[2 * i + 2], now, keep, keep_ms)
  lines[i] = free and released or ''
end
return table.concat(lines, '\n')
