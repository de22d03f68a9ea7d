-- Takes n read-write locks to read, each for itself and for an owner of its own. A lock that
-- anybody holds or waits for, or on which an attempt was undone, is left as it is, and its caller
-- asks again by rwlock/read with the same attempt. This script follows rwlock/counter.lua and
-- core/act_before_each.lua.
--
-- KEYS  1..2n     K and D of each lock, see rwlock/state.lua
-- ARGV  as for exclusive/acquire_each
-- Reply a text of one line per lock: the reply of rwlock/read as a text, or an empty line if the
--       lock is left as it is
-- Cost  O(n): TIME, and per lock HMGET, HSET, ZADD, twice PEXPIRE.
local call = redis.call
local client, lease, ttl = ARGV[2], ARGV[3], ARGV[4]
local ends = (now + lease) .. ''
local granted = now .. ' granted 1 '
local lines = {}
for i = 1, #KEYS / 2 do
  local key, index = KEYS[2 * i - 1], KEYS[2 * i]
  -- k kind, o writer, t token, v voids, n waiters until, c counter; x is stale without n
  local f = call('HMGET', key, 'k', 'o', 't', 'v', 'n', 'c')
  if f[2] or f[4] or f[5] or f[1] and f[1] ~= 'rw:1' or not nobody_reads(f[6]) then
    lines[i] = ''
  else
    local owner, attempt = client .. ARGV[2 * i + 3], client .. ARGV[2 * i + 4]
    local token, serial, counter = f[3], micros, f[6]
    if not counter then
      counter = serial .. ' 0000000000000000 1'
    else
      if serial <= string.sub(counter, 1, 16) then
        serial = string.format('%.0f', string.sub(counter, 1, 16) + 1)
      end
      counter = serial .. string.sub(counter, 17, 34) .. '1'
    end
    -- No write is known without a token. A new one separates the data read from now on from data
    -- read before.
    local hold = ends .. ' ' .. serial .. ' ' .. (token or micros) .. ' r ' .. attempt .. ' '
    if token then
      call('HSET', key, 'r' .. owner, hold, 'c', counter)
    else
      token = micros
      call('HSET', key, 'r' .. owner, hold, 'c', counter, 't', token, 'k', 'rw:1')
    end
    call('ZADD', index, ends, owner)
    call('PEXPIRE', key, ttl)
    call('PEXPIRE', index, ttl)
    lines[i] = granted .. token .. ' 0  ' .. serial
  end
end
return table.concat(lines, '\n')
