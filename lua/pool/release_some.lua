-- uses pool/shared
-- Takes back all permits of n holds of one pool, each for itself, and notifies the waiters that can
-- be served then. A hold that is over is left as it is, and its caller asks again by pool/release.
--
-- KEYS  1 K, 2 D, 3 Q, 4 L; see shared.lua
-- ARGV  1 client  the part that all holds have in common
--       2 kind    of the pool
--       3..       holds, each `:<n>` or `:<n>:<i>`, to be appended to the client
-- Reply a text of one line per hold: the reply of pool/release as a text, or an empty line if the
--       hold is left as it is. The line of the last released hold tells of all grants. Waiters of
--       the client get messages as all others do: they come together, and so do the next requests
-- Cost  O(n log holds): TIME, HMGET, HDEL, ZREM, HSET; with waiters + O(log n + 16) and a PUBLISH
--       for each notified one, 16 at most; for each that gets permits also HGET, and ZADD.
--
-- Needs no limit of time: a hold's name is never used again. Begins with HDEL, which a full server
-- accepts.
local call = redis.call
local time = call('TIME')
local micros = time[1] .. string.sub('00000' .. time[2], -6)
local now = string.sub(micros, 1, 13)
local k, d, q, l = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local client = ARGV[1]
local fields, ids = {'k', 's', 'c', 'n', 'y', 'r', 'e', 'u', 'v'}, {}
for i = 3, #ARGV do
  ids[i - 2] = client .. ARGV[i]
  fields[i + 7] = 'h:' .. ids[i - 2]
end
local f = call('HMGET', k, unpack(fields))
local plain = f[1] == ARGV[2] and f[2]
local out, over, gone, lines, seen, last = f[3], {}, {}, {}, {}, nil
for i = 1, #ids do
  local hold, id = f[9 + i], ids[i]
  if not plain or not hold or seen[id] or string.sub(hold, 1, 13) <= now then
    lines[i] = ''
  else
    seen[id] = true
    out = out - string.match(hold, ' (%d+)')
    over[#over + 1] = fields[9 + i]
    gone[#gone + 1] = id
    lines[i] = now .. ' released 0'
    last = i
  end
end
if gone[1] then
  pool_end(k, {'c', out}, over)
  call('ZREM', d, unpack(gone))
  if f[4] then
    local size = tonumber(f[2])
    local grants = pool_grants(k, now, micros, out, f[8], f[9])
    pool_serve(k, d, q, l, now, f[5], f[6], size - out, size, {}, not f[7] and grants)
    lines[last] = lines[last] .. grants.told
  end
end
return table.concat(lines, '\n')
