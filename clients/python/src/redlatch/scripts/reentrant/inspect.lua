local KIND = 'lock:1'
-- Publishes messages. This part precedes every script that publishes.

-- Publishes `message`. Returns the server's error if it refuses, such as for a missing right. Verb
-- and channel may come from a sorted set that others can write to, so this function sends messages
-- and nothing else.
local function publish(verb, channel, message)
  if verb == 'PUBLISH' or verb == 'SPUBLISH' then
    local reply = redis.pcall(verb, channel, message)
    return type(reply) == 'table' and reply.err or nil
  end
  return nil
end

-- The plain lock's way to wait: whoever comes first. This part follows a line that sets KIND and
-- core/publish.lua, and precedes the scripts in `exclusive`.
--
-- Q  sorted set, waiter's address `<verb> <channel> <n>` -> ms until which it counts as alive; one
--    for each name
local PARTS = 2

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
  return {now, 'busy', i, f[4] - now, f[2]}
end

-- Only kinds with an order count who is alive.
local function stay(_i, _m, _f, _now) end

-- Notifies one living waiter of name i. Returns its channel and the number of the others. O(log
-- waiters, dead waiters): ZREMRANGEBYSCORE, ZPOPMIN, ZCARD, PUBLISH.
local function wake(i, m, now, _before)
  local key, queue = KEYS[i], KEYS[m + i]
  redis.call('ZREMRANGEBYSCORE', queue, '-inf', now)
  local first = redis.call('ZPOPMIN', queue)
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

-- Returns the number of living waiters. O(log waiters): ZCOUNT.
local function waiting(now)
  return redis.call('ZCOUNT', KEYS[2], now, '+inf')
end

-- Shows the holder of a name. Writes nothing. This script follows the kind.lua of its kind, which
-- has KIND and `waiting`.
--
-- KEYS  1 K, then the indexes of its waiters
-- Reply {now, 'free'}
--       {now, 'kind', kind}
--       {now, 'held', owner, count, token, remaining ms, waiters}
-- Cost  O(1): TIME, HMGET, and counting waiters, see the kind.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local f = redis.call('HMGET', KEYS[1], 'k', 'o', 'h', 't', 'u')
if f[1] and f[1] ~= KIND then
  return {now, 'kind', f[1]}
elseif not f[2] or f[5] <= now then
  return {now, 'free'}
end
local _, spaces = string.gsub(f[3], ' ', ' ')
return {now, 'held', f[2], spaces - 1, f[4], f[5] - now, waiting(now)}
