-- uses rwlock/counter, core/attempts
-- The plain case of an acquisition to read. This part follows rwlock/counter.lua and
-- core/attempts.lua, precedes the scripts that admit readers, and does nothing by itself.

-- Admits a reader to a lock that nobody holds or waits for, if its attempt is not refused: its
-- fields are kind, writer, token, attempts that may not act, waiters, counter. `micros` is the time
-- in µs, `limit` the last ms at which a copy of this request acts. Returns token and serial, or nil
-- without a write if the lock is not plain. O(log holds): ZADD, HSET, twice PEXPIRE.
local function plain_read(
  key, index, kind, writer, token, spent, waiters, counter, owner, attempt, limit, micros, ends, ttl)
  if writer or waiters or kind and kind ~= 'rw:1' or not nobody_reads(counter) then
    return nil
  end
  local refused
  spent, refused = spend(spent, attempt, limit, string.sub(micros, 1, 13))
  if refused then
    return nil
  end
  local serial, new = micros, micros .. ' 0000000000000000 1'
  if counter then
    if serial <= string.sub(counter, 1, 16) then
      serial = string.format('%.0f', string.sub(counter, 1, 16) + 1)
    end
    new = serial .. string.sub(counter, 17, 34) .. '1'
  end
  -- No write is known without a token. A new one separates the data read from now on from data read
  -- before.
  local hold = ends .. ' ' .. serial .. ' ' .. (token or micros) .. ' r ' .. attempt .. ' '
  -- The index comes first: if another program has its key, no hold without a TTL stays.
  redis.call('ZADD', index, ends, owner)
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

