-- The plain case of the end of a read hold. This part precedes the scripts that end read holds, and
-- does nothing by itself.

-- Ends a read hold that lasts, has this serial and only this attempt, of a lock that nobody writes
-- or waits for: its fields are waiters, writer, counter, and the hold. `keep` is now + keep_ms.
-- Returns the number of read holds that are left, or nil without a write if the case is not plain.
-- O(log holds): HDEL, HSET, ZREM, and PEXPIRE after a long lease.
local function plain_leave(key, index, waiters, writer, counter, hold, owner, attempt, serial, now, keep, keep_ms)
  if waiters or writer or not counter or not hold or string.sub(hold, 1, 13) <= now then
    return nil
  elseif string.sub(hold, 15, 30) ~= serial or string.sub(hold, 48) ~= ' r ' .. attempt .. ' ' then
    return nil
  end
  local count = string.sub(counter, 35) - 1
  redis.call('HDEL', key, 'r' .. owner)
  redis.call('HSET', key, 'c', string.sub(counter, 1, 17) .. serial .. ' ' .. count)
  redis.call('ZREM', index, owner)
  if count == 0 and string.sub(hold, 1, 13) > keep then
    redis.call('PEXPIRE', key, keep_ms)
  end
  return count
end

