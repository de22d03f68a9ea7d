-- The layout that redis-py, redsync, redislock, node-redlock and rslock share: a string under the
-- name itself, whose value belongs to the holder alone. This part precedes the scripts about it.
--
-- The value of a client of this family is `<client>:<n>:<serial>`: the attempt, and the time in µs
-- at which it took the name. So no two holds have one value, even if a late copy of an acquisition
-- takes the name again after somebody has removed its value.
--
-- Beside it, clients of this family keep a hash M, which other programs do not read:
--   k  'setnx:1'
--   t  the serial of the last hold of this family, so that serials rise
--   z  the attempt that was released last
--   v  attempts that may not act, see core/attempts.lua

-- Returns the serial of a value that `attempt` has written, else nil.
local function serial_of(value, attempt)
  if value and string.sub(value, 1, #attempt + 1) == attempt .. ':' then
    return string.sub(value, #attempt + 2)
  end
  return nil
end

-- Makes a key last `life` ms at least. O(1).
local function outlive(key, life)
  if redis.call('PTTL', key) < life + 0 then
    redis.call('PEXPIRE', key, life)
  end
end

