-- The plain entries of pool/release.lua, which describes keys, arguments and replies. This part
-- precedes the functions of the other cases, since the server executes their definitions in every
-- call.
--
-- The entries of a pool are plain if all of them end all of their holds, which last, and nobody
-- waits. Leaves `began`, the time in µs, `entries`, their number, `width`, the number of keys of
-- each, `lines`, the replies so far, `pools`, by entry the pool that it is about, and `rest`,
-- the numbers of the entries of pools that are not plain. A pool is the list of the numbers of its
-- entries, with the fields
--
--   names, read  names and values of fields of K: nine, and the holds of all entries in turn
--   failed       the error with which its entries have ended
local time = redis.call('TIME')
local began = time[1] .. string.sub('00000' .. time[2], -6)
local entries = (#ARGV - 3) / 6
local width = #KEYS / entries
local lines, pools, rest = {}, {}, nil
do
  local call = redis.call
  local client, kind, now = ARGV[1], ARGV[2], string.sub(began, 1, 13)
  local found, all = {}, {}
  local own = 4
  for i = 1, entries do
    local key = KEYS[(i - 1) * width + 1]
    local pool = found[key]
    if not pool then
      -- k kind, s size, c permits out, n waiters until, y notified waiter, v attempts that may not
      -- act, e end of the pool, r ticket up to which waiters were notified, u latest end
      pool = {names = {'k', 's', 'c', 'n', 'y', 'v', 'e', 'r', 'u'}, ends = width > 1}
      found[key], all[#all + 1] = pool, pool
    end
    pools[i], pool[#pool + 1] = pool, i
    local names = pool.names
    for hold in string.gmatch(ARGV[own + 5], '%S+') do
      -- A hold of another client has its whole name.
      names[#names + 1] = 'h:' .. (string.sub(hold, 1, 1) == ':' and client .. hold or hold)
    end
    if ARGV[own + 1] ~= '' or ARGV[own + 2] ~= '' or ARGV[own + 3] ~= '0' or ARGV[own + 4] ~= '0' then
      pool.ends = false
    end
    own = own + 6
  end

  for p = 1, #all do
    local pool = all[p]
    local key, names = KEYS[(pool[1] - 1) * width + 1], pool.names
    local f = redis.pcall('HMGET', key, unpack(names))
    pool.read = f
    local plain = pool.ends and not f.err and f[1] == kind and not f[4] and tonumber(f[3])
    if plain then
      local out, seen, over, gone = f[3], {}, {}, {}
      for j = 10, #names do
        local hold, name = f[j], names[j]
        local permits = hold and not seen[name] and string.sub(hold, 1, 13) > now and string.match(hold, ' (%d+)')
        plain = plain and permits and permits ~= '0'
        if plain then
          seen[name] = true
          out = out - permits
          over[#over + 1], gone[#gone + 1] = name, string.sub(name, 3)
        end
      end
      if plain then
        -- As pool_end in pool/shared.lua.
        call('HDEL', key, '')
        call('HSET', key, 'c', out)
        call('HDEL', key, unpack(over))
        local removed = redis.pcall('ZREM', KEYS[(pool[1] - 1) * width + 2], unpack(gone))
        pool.failed = type(removed) == 'table' and removed or nil
        for j = 1, #pool do
          local _, holds = string.gsub(ARGV[6 * pool[j] + 3], '%S+', '')
          lines[pool[j]] = now .. string.rep(' released 0', holds)
        end
      end
    end
    if not plain or pool.failed then
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

