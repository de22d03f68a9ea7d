-- uses rwlock/kind, rwlock/counter, exclusive/plain_take, core/act_before_each
-- Takes n read-write locks to write, each for itself and for an owner of its own. A lock that
-- anybody holds or waits for, or whose attempt is refused, is left as it is, and its caller
-- asks again by rwlock/write with the same attempt. This script follows rwlock/kind.lua,
-- rwlock/counter.lua, exclusive/plain_take.lua and core/act_before_each.lua.
--
-- KEYS  1..n      K of each lock, see rwlock/state.lua
-- ARGV  as for exclusive/acquire_each
-- Reply a text of one line per lock: the reply of rwlock/write as a text, or an empty line if the
--       lock is left as it is
-- Cost  O(n): TIME, and per lock HMGET, HSET, PEXPIRE.
local limit, client, lease, ttl = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local ends = (now + lease) .. ''
local granted = now .. ' granted 1 '
local lines = {}
for i = 1, #KEYS do
  local key = KEYS[i]
  -- k kind, o writer, t token, v attempts that may not act, n waiters until, c counter
  local f = redis.call('HMGET', key, 'k', 'o', 't', 'v', 'n', 'c')
  local token
  if nobody_reads(f[6]) then
    local owner, attempt = client .. ARGV[2 * i + 3], client .. ARGV[2 * i + 4]
    token = plain_take(key, f[1], f[2], f[3], f[4], may_wait(f[5], now), owner, attempt, limit, micros, ends, ttl)
  end
  lines[i] = token and granted .. token .. ' 0  ' .. token or ''
end
return table.concat(lines, '\n')
