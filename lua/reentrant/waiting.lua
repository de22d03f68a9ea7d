-- How many wait for a plain lock. This part precedes exclusive/inspect.lua.

-- Returns the number of living waiters. O(log waiters): ZCOUNT.
local function waiting(now)
  return redis.call('ZCOUNT', KEYS[2], now, '+inf')
end

