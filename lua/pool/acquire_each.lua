-- uses core/attempts, core/act_before_each
-- Gives out permits of n pools, each for itself. A pool that has too few, that somebody waits for,
-- or that has an end is left as it is, as for an attempt that is refused, and its caller asks again
-- by pool/acquire with the same attempt. A pool may stand among them several times. This script
-- follows core/attempts.lua and core/act_before_each.lua.
--
-- KEYS  1..2n     K and D of each pool, see pool/shared.lua
-- ARGV  1 act_before  last server time in ms at which this may act, the first of all limits
--       2 client  the part that all attempts have in common
--       3 kind    of the pools
--       4 lease   ms
--       5..       for each pool: attempt, `:<n>`, to be appended to the client; permits; default
--                 size of a pool without one, or ''; '' for one hold named like the attempt, '1'
--                 for holds of one permit
-- Reply a text of one line per pool: the reply of pool/acquire as a text, or an empty line if the
--       pool is left as it is
-- Cost  O(n log holds): TIME, and HMGET, HSET, ZADD for each run of equal pools.
--
-- Expired holds are not removed, so that a pool may be left as it is though it has room.
local call = redis.call
local client, kind = ARGV[2], ARGV[3]
local span = (now + ARGV[4]) .. ''
local lines = {}
-- Each hold of a pool has a number of its own, though all have the same time.
local last = {}
local n = #KEYS / 2
local i = 1
while i <= n do
  local k, from = KEYS[2 * i - 1], i
  -- k kind, s size, c permits out, v attempts that may not act, n waiters until, u latest end, e
  -- end of the pool
  local fields, ids = {'k', 's', 'c', 'v', 'n', 'u', 'e'}, {}
  repeat
    local id = client .. ARGV[4 * i + 1]
    if ARGV[4 * i + 4] ~= '' then
      id = id .. ':0'
    end
    ids[#ids + 1] = id
    fields[#fields + 1] = 'h:' .. id
    i = i + 1
  until KEYS[2 * i - 1] ~= k
  local f = call('HMGET', k, unpack(fields))
  local plain = not (f[1] and f[1] ~= kind or f[5] or f[7])
  local out, size, new_size, v = tonumber(f[3] or 0), tonumber(f[2]), nil, f[4]
  local write, index, seen = {}, {}, {}
  for j = 1, #ids do
    local line, at, id = from + j - 1, 4 * (from + j) - 3, ids[j]
    local need = tonumber(ARGV[at + 1])
    if plain and not f[1] and not index[1] then
      -- The first grant sets the size of a pool without one.
      new_size = ARGV[at + 2]
      size = tonumber(new_size)
    end
    local fits = plain and size and not f[7 + j] and not seen[id] and out + need <= size
    local spent, refused
    if fits and (ARGV[at + 3] == '' or need == 1) then
      spent, refused = spend(v, client .. ARGV[at], ARGV[1], now)
    end
    if not spent or refused then
      lines[line] = ''
    else
      v = spent
      seen[id] = true
      out = out + need
      write[#write + 1], write[#write + 2] = 'h:' .. id, span .. ' ' .. ARGV[at + 1] .. ' 0'
      index[#index + 1], index[#index + 2] = span, id
      local number = micros
      if last[k] then
        number = string.format('%.0f', last[k] + 1)
      end
      last[k] = number
      lines[line] = now .. ' granted ' .. ARGV[at + 1] .. ' ' .. number .. '  0'
    end
  end
  if index[1] then
    write[#write + 1], write[#write + 2] = 'c', out
    write[#write + 1], write[#write + 2] = 'v', v
    if not f[6] or f[6] < span then
      write[#write + 1], write[#write + 2] = 'u', span
    end
    if not f[1] then
      write[#write + 1], write[#write + 2] = 'k', kind
      write[#write + 1], write[#write + 2] = 's', new_size
    end
    call('HSET', k, unpack(write))
    call('ZADD', KEYS[2 * from], unpack(index))
  end
end
return table.concat(lines, '\n')
