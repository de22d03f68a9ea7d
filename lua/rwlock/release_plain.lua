-- uses rwlock/counter, exclusive/plain_free
-- The plain entries of rwlock/release.lua, which describes keys, arguments and replies. This part
-- precedes the functions of the other cases, since the server executes their definitions in every
-- call. It follows rwlock/counter.lua and exclusive/plain_free.lua.
--
-- Leaves `began`, the server's time in µs, `lines`, the replies so far, and `rest`, the numbers of
-- the other entries. A later entry of the same lock is one of `rest` as well. An entry has `width`
-- keys.

-- Ends a read hold that lasts, has this serial and only this attempt, of a lock that nobody writes
-- or waits for. `f` are the fields, `keep` is now + keep_ms. Returns the number of read holds that
-- are left, or nil without a write if the case is not plain. O(log holds): ZREM, HDEL, HSET, and
-- PEXPIRE after a long lease.
local function plain_leave(key, index, f, owner, attempt, serial, now, keep, keep_ms)
  local counter, hold = f[3], f[4]
  if f.err or may_wait(f[1], now) or f[2] or not counter or not hold or string.sub(hold, 1, 13) <= now then
    return nil
  elseif string.sub(hold, 15, 30) ~= serial or string.sub(hold, 48) ~= ' r ' .. attempt .. ' ' then
    return nil
  end
  local count = tonumber(string.sub(counter, 35))
  -- The index comes first: if another program has its key, the other entries are served.
  if not count or type(redis.pcall('ZREM', index, owner)) == 'table' then
    return nil
  end
  count = count - 1
  redis.call('HDEL', key, 'r' .. owner)
  redis.call('HSET', key, 'c', string.sub(counter, 1, 17) .. serial .. ' ' .. count)
  if count == 0 and string.sub(hold, 1, 13) > keep then
    redis.call('PEXPIRE', key, keep_ms)
  end
  return count
end

local time = redis.call('TIME')
local began = time[1] .. string.sub('00000' .. time[2], -6)
local lines, rest = {}, nil
local width = #KEYS / ((#ARGV - 2) / 6)
do
  local now = string.sub(began, 1, 13)
  local client, keep_ms, own, off = ARGV[1], ARGV[2], 3, {}
  local keep, released = (now + keep_ms) .. '', now .. ' released 0 '
  for i = 1, #KEYS / width do
    local at = (i - 1) * width + 1
    local key, left = KEYS[at], nil
    if ARGV[own + 2] == '' and ARGV[own + 3] == '' and not off[key] then
      local attempt, id = client .. ARGV[own + 1], ARGV[own + 5]
      if ARGV[own + 4] == 'r' then
        local owner = client .. ARGV[own]
        -- n waiters until, o writer, c counter, r<owner> the hold
        local f = redis.pcall('HMGET', key, 'n', 'o', 'c', 'r' .. owner)
        left = width > 1 and plain_leave(key, KEYS[at + 4], f, owner, attempt, id, now, keep, keep_ms)
      else
        -- h attempts, t token, u until, n waiters until, c counter
        local f = redis.pcall('HMGET', key, 'h', 't', 'u', 'n', 'c')
        local waiters = not f.err and may_wait(f[4], now)
        left = not f.err and nobody_reads(f[5])
          and plain_free(key, f[1], f[2], f[3], waiters, ' ' .. attempt .. ' ', id, now, keep, keep_ms) and 0
      end
    end
    if left then
      lines[i] = released .. (left == 0 and '1' or '0')
    else
      off[key] = true
      rest = rest or {}
      rest[#rest + 1] = i
    end
    own = own + 6
  end
end
if not rest then
  return table.concat(lines, '\n')
end

