-- The memory of operations, so that late copies of a request do not act again. This part precedes
-- the scripts that change something once, and does nothing by itself.
--
-- O  sorted set, operation -> µs until which it is remembered; `<op>!` was refused

-- Remembers for `keep` ms that an operation ran at `stamp`, and forgets at most 32 old ones. Begins
-- with PEXPIRE, which a full server accepts, and then the rest. O(log n).
local function remember(ops, op, stamp, keep, micros)
  local there = redis.call('PEXPIRE', ops, keep)
  redis.call('ZADD', ops, stamp + keep * 1000, op)
  if there == 0 then
    redis.call('PEXPIRE', ops, keep)
  else
    local old = redis.call('ZRANGEBYSCORE', ops, '-inf', micros, 'LIMIT', 0, 32)
    if old[1] then
      redis.call('ZREM', ops, unpack(old))
    end
  end
end

