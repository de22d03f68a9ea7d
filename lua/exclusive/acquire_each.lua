-- uses $kind/exclusive, exclusive/plain_take, core/act_before_each
-- Takes n names, each for itself and for an owner of its own. A name that is not plain, see
-- exclusive/plain_take.lua, is left as it is, and its caller asks again by exclusive/acquire with
-- the same attempt. This script follows exclusive/plain_take.lua and core/act_before_each.lua.
--
-- KEYS  1..n      K of each name
-- ARGV  1 act_before  last server time in ms at which this may act, the first of all limits
--       2 client  the part that all owners and attempts have in common
--       3 lease   ms
--       4 ttl     ms, lease + retention of the token
--       5..       for each name: owner and attempt, each `:<n>`, to be appended to the client
-- Reply a text of one line per name: the reply of exclusive/acquire as a text, or an empty line if
--       the name is not plain
-- Cost  O(n): TIME, and per name HMGET, HSET, PEXPIRE.
--
-- Several names that are granted by one call may have equal tokens. Tokens are compared per name
-- only. On a full server the first write is refused, and with it the whole call, which has then
-- written nothing.
local call = redis.call
local limit, client, lease, ttl = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local ends = (now + lease) .. ''
local granted = now .. ' granted 1 '
local lines = {}
for i = 1, #KEYS do
  local key = KEYS[i]
  -- k kind, o owner, t token, v attempts that may not act, n waiters until
  local f = call('HMGET', key, 'k', 'o', 't', 'v', 'n')
  local owner, attempt = client .. ARGV[2 * i + 3], client .. ARGV[2 * i + 4]
  local token = plain_take(key, f[1], f[2], f[3], f[4], f[5], owner, attempt, limit, micros, ends, ttl)
  lines[i] = token and granted .. token .. ' 0 ' or ''
end
return table.concat(lines, '\n')
