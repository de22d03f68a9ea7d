-- The plain lock's way to wait: whoever comes first. This part precedes exclusive/acquire.lua.
--
-- Q  sorted set, waiter's address `<verb> <channel> <n>` -> ms until which it counts as alive; one
--    for each name

-- Registers a waiter for name i, if the call asks for that. Any caller may take a free name. The
-- answer's `look` is the rest of the lease. O(log waiters): HSET, ZADD, PEXPIRE.
local function wait(i, m, f, now, _micros)
  if not f[2] or f[4] <= now then
    return nil
  end
  if ARGV[6] ~= '' then
    local alive = (now + ARGV[6]) .. ''
    local last = alive
    if f[6] and f[6] > alive then
      last = f[6]
    end
    redis.call('HSET', KEYS[i], 'n', last)
    redis.call('ZADD', KEYS[m + i], alive, ARGV[7])
    redis.call('PEXPIRE', KEYS[m + i], last - now)
  end
  return now .. ' busy ' .. i .. ' ' .. f[4] - now .. ' ' .. f[2]
end

-- Only a kind with an order has places.
local function waits(_queue, _address)
  return false
end

-- Only kinds with an order count who is alive.
local function stay(_i, _m, _f, _now) end

