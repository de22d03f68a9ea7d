-- Takes back all permits of n holds, each for itself. A hold that is over, or whose pool somebody
-- waits for, is left as it is, and its caller asks again by pool/release.
--
-- KEYS  1..2n     K and D of each pool, see pool/shared.lua
-- ARGV  1 client  the part that all holds have in common
--       2 kind    of the pools
--       3..       for each pool: the hold, `:<n>` or `:<n>:<i>`, to be appended to the client
-- Reply a text of one line per pool: the reply of pool/release as a text, or an empty line if the
--       hold is left as it is
-- Cost  O(n log holds): TIME, and HMGET, 2 HDEL, HSET, ZREM for each run of equal pools.
--
-- Needs no limit of time: a hold's name is never used again. Begins with HDEL, which a full server
-- accepts.
local call = redis.call
local time = call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local client, kind = ARGV[1], ARGV[2]
local released = now .. ' released 0'
local lines = {}
local n = #KEYS / 2
local i = 1
while i <= n do
  local k, from = KEYS[2 * i - 1], i
  -- k kind, c permits out, n waiters until
  local fields, ids = {'k', 'c', 'n'}, {}
  repeat
    local id = client .. ARGV[i + 2]
    ids[#ids + 1] = id
    fields[#fields + 1] = 'h:' .. id
    i = i + 1
  until KEYS[2 * i - 1] ~= k
  local f = call('HMGET', k, unpack(fields))
  local plain = f[1] == kind and not f[3]
  local out, over, gone, seen = f[2], {}, {}, {}
  for j = 1, #ids do
    local hold, id = f[3 + j], ids[j]
    if not plain or not hold or seen[id] or string.sub(hold, 1, 13) <= now then
      lines[from + j - 1] = ''
    else
      seen[id] = true
      out = out - string.match(hold, ' (%d+)')
      over[#over + 1] = 'h:' .. id
      gone[#gone + 1] = id
      lines[from + j - 1] = released
    end
  end
  if gone[1] then
    -- As pool_end in pool/shared.lua.
    call('HDEL', k, '')
    call('HSET', k, 'c', out)
    call('HDEL', k, unpack(over))
    call('ZREM', KEYS[2 * from], unpack(gone))
  end
end
return table.concat(lines, '\n')
