-- The plain lock's way to wait: whoever comes first. This part precedes exclusive/acquire.lua.
--
-- Q  sorted set, waiter's address `<verb> <channel> <n>` -> ms until which it counts as alive; one
--    for each name

-- Registers a waiter for the name at KEYS[at], if its entry `e` asks for that. Any caller may take
-- a free name. The answer's `look` is the rest of the lease. O(log waiters): HSET, ZADD, PEXPIRE.
local function wait(at, i, has, e, now, _micros)
  if not has.owner or has.ends <= now then
    return nil
  end
  if e.register ~= '' then
    local alive = (now + e.register) .. ''
    local last = alive
    if has.waiters and has.waiters > alive then
      last = has.waiters
    end
    redis.call('HSET', KEYS[at], 'n', last)
    redis.call('ZADD', KEYS[at + 1], alive, e.address)
    redis.call('PEXPIRE', KEYS[at + 1], last - now)
  end
  return now .. ' busy ' .. i .. ' ' .. has.ends - now .. ' ' .. has.owner
end

-- Only a kind with an order has places.
local function waits(_queue, _address)
  return false
end

-- Only kinds with an order count who is alive.
local function stay(_at, _f, _e, _now) end

