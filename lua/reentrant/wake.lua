-- uses core/publish
-- The plain lock's way to go on when a name is free. This part follows core/publish.lua, and
-- precedes the scripts that free names.

-- Notifies one living waiter of the name at KEYS[at]. Returns its channel and the number of the
-- others. O(log waiters, dead waiters): ZPOPMIN, ZCARD, PUBLISH; with dead ones ZREMRANGEBYSCORE,
-- ZPOPMIN.
local function wake(at, now, _before)
  local key, queue = KEYS[at], KEYS[at + 1]
  local first = redis.call('ZPOPMIN', queue)
  if first[1] and first[2] <= now then
    redis.call('ZREMRANGEBYSCORE', queue, '-inf', now)
    first = redis.call('ZPOPMIN', queue)
  end
  if first[1] then
    local verb, channel = string.match(first[1], '^(%u+) (%S+)')
    local left = redis.call('ZCARD', queue)
    publish(verb, channel, key)
    return ' ' .. channel .. ' ' .. left
  else
    redis.call('HDEL', key, 'n')
  end
end

-- Only kinds with an order give a name to a waiter.
local function remind(_key, _token, _holder, _asker)
  return ''
end

