-- uses rwlock/counter, core/attempts, core/begin
-- The plain entries of rwlock/read.lua, which describes keys, arguments and replies. This part
-- precedes the functions of the other cases, since the server executes their definitions in every
-- call. It follows rwlock/counter.lua, core/attempts.lua and core/begin.lua.
--
-- Leaves `lines`, the replies so far, and `rest`, the numbers of the other entries. A later entry
-- of the same lock is one of `rest` as well.

-- Admits a reader to a lock that nobody holds or waits for, if its attempt is not refused. `f` are
-- the fields, `micros` is the time in µs, `limit` the last ms at which a copy of the request acts.
-- Returns token and serial, or nil without a write if the lock is not plain. O(log holds): ZADD,
-- HSET, twice PEXPIRE.
local function plain_read(key, index, f, owner, attempt, limit, micros, ends, ttl)
  local now, token, counter = string.sub(micros, 1, 13), f[3], f[6]
  if f.err or f[2] or may_wait(f[5], now) or f[1] and f[1] ~= 'rw:1' or not nobody_reads(counter) then
    return nil
  end
  local spent, refused = spend(f[4], attempt, limit, now)
  if refused then
    return nil
  end
  local serial, new = micros, micros .. ' 0000000000000000 1'
  if counter then
    if serial <= string.sub(counter, 1, 16) then
      local last = tonumber(string.sub(counter, 1, 16))
      if not last then
        return nil
      end
      serial = string.format('%.0f', last + 1)
    end
    new = serial .. string.sub(counter, 17, 34) .. '1'
  end
  -- No write is known without a token. A new one separates the data read from now on from data read
  -- before.
  local hold = ends .. ' ' .. serial .. ' ' .. (token or micros) .. ' r ' .. attempt .. ' '
  -- The index comes first: if another program has its key, no hold without a TTL stays, and the
  -- other entries are served.
  if type(redis.pcall('ZADD', index, ends, owner)) == 'table' then
    return nil
  end
  if token then
    redis.call('HSET', key, 'r' .. owner, hold, 'c', new, 'v', spent)
  else
    token = micros
    redis.call('HSET', key, 'r' .. owner, hold, 'c', new, 'v', spent, 't', token, 'k', 'rw:1')
  end
  redis.call('PEXPIRE', key, ttl)
  redis.call('PEXPIRE', index, ttl)
  return token, serial
end

local lines, rest = {}, nil
do
  local now = string.sub(began, 1, 13)
  local client, ttl, own, off = ARGV[2], ARGV[4], 5, {}
  local ends, granted = (now + ARGV[3]) .. '', now .. ' granted 1 '
  for i = 1, #KEYS / 5 do
    local key, token, serial = KEYS[5 * i - 4], nil, nil
    if ARGV[own + 4] == 'r' and not off[key] then
      -- k kind, o writer, t token, v attempts that may not act, n waiters until, c counter
      local f = redis.pcall('HMGET', key, 'k', 'o', 't', 'v', 'n', 'c')
      local owner, attempt = client .. ARGV[own], client .. ARGV[own + 1]
      token, serial = plain_read(key, KEYS[5 * i], f, owner, attempt, ARGV[1], began, ends, ttl)
    end
    if token then
      lines[i] = granted .. token .. ' 0  ' .. serial
    else
      off[key] = true
      rest = rest or {}
      rest[#rest + 1] = i
    end
    own = own + 5
  end
end
if not rest then
  return table.concat(lines, '\n')
end

