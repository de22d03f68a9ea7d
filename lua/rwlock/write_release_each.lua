-- uses rwlock/counter, exclusive/plain_free
-- Ends n write holds, each for itself. A lock that somebody else reads or waits for is left as it
-- is, and its caller asks again by rwlock/release. This script follows rwlock/counter.lua and
-- exclusive/plain_free.lua.
--
-- KEYS  1..n      K of each lock, see rwlock/state.lua
-- ARGV  as for exclusive/release_each
-- Reply a text of one line per lock: the reply of rwlock/release as a text, or an empty line if the
--       lock is left as it is
-- Cost  O(n): TIME, and per lock HMGET, HDEL, and PEXPIRE after a long lease.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local attempts, keep_ms = ' ' .. ARGV[1], ARGV[2]
local keep = (now + keep_ms) .. ''
local released = now .. ' released 0 1'
local lines = {}
for i = 1, #KEYS do
  local key = KEYS[i]
  -- h attempts, t token, u until, n waiters until, c counter
  local f = redis.call('HMGET', key, 'h', 't', 'u', 'n', 'c')
  local attempt = attempts .. ARGV[2 * i + 1] .. ' '
  local free = nobody_reads(f[5])
    and plain_free(key, f[1], f[2], f[3], may_wait(f[4], now), attempt, ARGV[2 * i + 2], now, keep, keep_ms)
  lines[i] = free and released or ''
end
return table.concat(lines, '\n')
