-- uses rwlock/counter, rwlock/plain_read, core/act_before_each
-- Takes n read-write locks to read, each for itself and for an owner of its own. A lock that
-- anybody holds or waits for, or whose attempt is refused, is left as it is, and its caller
-- asks again by rwlock/read with the same attempt. This script follows rwlock/plain_read.lua and
-- core/act_before_each.lua.
--
-- KEYS  1..2n     K and D of each lock, see rwlock/state.lua
-- ARGV  as for exclusive/acquire_each
-- Reply a text of one line per lock: the reply of rwlock/read as a text, or an empty line if the
--       lock is left as it is
-- Cost  O(n): TIME, and per lock HMGET, HSET, ZADD, twice PEXPIRE.
local call = redis.call
local limit, client, lease, ttl = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local ends = (now + lease) .. ''
local granted = now .. ' granted 1 '
local lines = {}
for i = 1, #KEYS / 2 do
  local key, index = KEYS[2 * i - 1], KEYS[2 * i]
  -- k kind, o writer, t token, v attempts that may not act, n waiters until, c counter
  local f = call('HMGET', key, 'k', 'o', 't', 'v', 'n', 'c')
  local owner, attempt = client .. ARGV[2 * i + 3], client .. ARGV[2 * i + 4]
  local token, serial =
    plain_read(key, index, f[1], f[2], f[3], f[4], may_wait(f[5], now), f[6], owner, attempt, limit, micros, ends, ttl)
  lines[i] = token and granted .. token .. ' 0  ' .. serial or ''
end
return table.concat(lines, '\n')
