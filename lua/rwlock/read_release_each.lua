-- uses rwlock/counter, rwlock/plain_leave
-- Ends n read holds, each for itself and of an owner of its own. A hold that is over, that has
-- other attempts, or that somebody waits for is left as it is, and its caller asks again by
-- rwlock/release. This script follows rwlock/counter.lua and
-- rwlock/plain_leave.lua.
--
-- KEYS  1..2n     K and D of each lock, see rwlock/state.lua
-- ARGV  1 client  the part that all owners and attempts have in common
--       2 keep    ms the token is kept after the last hold
--       3..       for each lock: owner and attempt, each `:<n>`, to be appended to the client, and
--                 the serial of the hold
-- Reply a text of one line per lock: the reply of rwlock/release as a text, or an empty line if the
--       lock is left as it is
-- Cost  O(n): TIME, and per lock HMGET, HDEL, HSET, ZREM, and PEXPIRE after a long lease.
local call = redis.call
local time = call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local client, keep_ms = ARGV[1], ARGV[2]
local keep = (now + keep_ms) .. ''
local released = now .. ' released 0 '
local lines = {}
for i = 1, #KEYS / 2 do
  local key, index = KEYS[2 * i - 1], KEYS[2 * i]
  local owner, serial = client .. ARGV[3 * i], ARGV[3 * i + 2]
  -- n waiters until, c counter, r<owner> the hold, o writer
  local f = call('HMGET', key, 'n', 'c', 'r' .. owner, 'o')
  local attempt = client .. ARGV[3 * i + 1]
  local count =
    plain_leave(key, index, may_wait(f[1], now), f[4], f[2], f[3], owner, attempt, serial, now, keep, keep_ms)
  lines[i] = count and released .. (count == 0 and '1' or '0') or ''
end
return table.concat(lines, '\n')
