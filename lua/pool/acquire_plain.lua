-- uses core/attempts, core/begin
-- The plain entries of pool/acquire.lua, which describes keys, arguments and replies. This part
-- precedes the functions of the other cases, since the server executes their definitions in every
-- call. It follows core/attempts.lua and core/begin.lua.
--
-- The entries of a pool are plain if there is room for all of them, nobody waits, and the pool has
-- no end. Leaves `entries`, their number, `lines`, the replies so far, `pools`, by entry the pool
-- that it asks, and `rest`, the numbers of the entries of pools that are not plain. A pool is the
-- list of the numbers of its entries, with the fields
--
--   names, read  names and values of fields of K: nine, and the holds of all entries in turn
local entries = (#ARGV - 4) / 6
local lines, pools, rest = {}, {}, nil
do
  local call = redis.call
  local client, kind, now = ARGV[2], ARGV[3], string.sub(began, 1, 13)
  local span, found, all = (now + ARGV[4]) .. '', {}, {}
  local own = 5
  for i = 1, entries do
    local key, need, number = KEYS[4 * i - 3], ARGV[own + 1], tonumber(string.sub(ARGV[own], 2))
    local pool = found[key]
    if not pool then
      -- k kind, s size, c permits out, v attempts that may not act, n waiters until, y notified
      -- waiter, u latest end, e end of the pool, r ticket up to which waiters were notified
      pool = {names = {'k', 's', 'c', 'v', 'n', 'y', 'u', 'e', 'r'}, need = 0, last = -1}
      found[key], all[#all + 1] = pool, pool
    end
    pools[i], pool[#pool + 1] = pool, i
    local names, hold = pool.names, 'h:' .. client .. ARGV[own]
    if ARGV[own + 5] == '' then
      names[#names + 1] = hold
    else
      for j = 1, need do
        names[#names + 1] = hold .. ':' .. j - 1
      end
    end
    -- Attempts that do not rise may be refused because of each other.
    pool.need = number > pool.last and pool.need + need or math.huge
    pool.last = number
    own = own + 6
  end

  for p = 1, #all do
    local pool = all[p]
    local first, last, names = 6 * pool[1] - 1, 6 * pool[#pool] - 1, pool.names
    local f = redis.pcall('HMGET', KEYS[4 * pool[1] - 3], unpack(names))
    pool.read = f
    local spent, refused
    if not f.err and not f[5] and not f[8] and (not f[1] or f[1] == kind and f[2]) then
      local size, out = tonumber(f[2] or ARGV[first + 2]), tonumber(f[3] or 0)
      if size and out and out + pool.need <= size then
        spent, refused = spend(f[4], client .. ARGV[first], ARGV[1], now)
        for j = 10, #names do
          refused = refused or f[j]
        end
      end
    end
    local plain = spent and not refused
    if plain then
      if last > first then
        spent = spend(f[4], client .. ARGV[last], ARGV[1], now)
      end
      local write, index, at, token = {'c', (f[3] or 0) + pool.need, 'v', spent}, {}, 10, began
      for j = 1, #pool do
        own = 6 * pool[j] - 1
        local permits, holds = ARGV[own + 1], 1
        if j > 1 then
          -- Each grant of a pool has a number of its own, though all have the same time.
          token = string.format('%.0f', token + 1)
        end
        lines[pool[j]] = now .. ' granted ' .. permits .. ' ' .. token .. '  0'
        if ARGV[own + 5] ~= '' then
          permits, holds = '1', permits + 0
        end
        for _ = 1, holds do
          write[#write + 1], write[#write + 2] = names[at], span .. ' ' .. permits .. ' 0'
          index[#index + 1], index[#index + 2] = span, string.sub(names[at], 3)
          at = at + 1
        end
      end
      if not f[7] or f[7] < span then
        write[#write + 1], write[#write + 2] = 'u', span
      end
      if not f[1] then
        write[#write + 1], write[#write + 2] = 'k', kind
        write[#write + 1], write[#write + 2] = 's', ARGV[first + 2]
      end
      -- A hold without its place in D would never end.
      plain = type(redis.pcall('ZADD', KEYS[4 * pool[1] - 2], unpack(index))) ~= 'table'
      if plain then
        call('HSET', KEYS[4 * pool[1] - 3], unpack(write))
      end
    end
    if not plain then
      rest = rest or {}
      for j = 1, #pool do
        rest[#rest + 1] = pool[j]
      end
    end
  end
end
if not rest then
  return table.concat(lines, '\n')
end

