-- How many wait for a fair lock. This part precedes exclusive/inspect.lua.

-- Returns the number of waiters. Dead ones count until a script removes them. O(1): ZCARD.
local function waiting(_now)
  return redis.call('ZCARD', KEYS[2])
end

