-- The waiters of one object, served in the order in which they came. Goes in front of every script that reads or writes such a queue; it has no effect
-- by itself.
--
-- Q  sorted set, member `<verb> <channel> <n>[ <what>]` -> ticket, in µs and rising in order of arrival
-- L  sorted set, member `<verb> <channel>`, a client -> ms until which its waiters count as alive
-- K  fields: n  ms until which anybody may wait; nobody does if it is absent or over
--            y  `<ms> <member>`, who was called last, and until when it may take its time to come
--
-- A waiter is dead when its client has not been heard of for long, or when it was called and did not come. Dead ones at the front are removed by
-- whoever looks, 64 at most in one script.
-- Times are text of 13 digits and compared as such. Tickets have 16 digits and never pass through `..`.

-- How long a waiter that is called may take to come, in ms.
local GRACE = 5000

local function queue_client(member)
  return string.match(member, '^%u+ %S+')
end

-- Returns the first member that is alive and until when it is, in ms; nil when there is none; nil, true when too many dead ones were in front of it.
-- O(log n) and O(dead, at most 64). Writes nothing unless some are dead.
local function queue_head(q, l, now, called)
  local removed = 0
  local count = 0
  repeat
    local members = redis.call('ZRANGE', q, 0, count)
    count = 15
    for i = 1, #members do
      local member = members[i]
      local alive = redis.call('ZSCORE', l, queue_client(member))
      if alive and called and string.sub(called, 15) == member then
        local patience = string.sub(called, 1, 13)
        if patience < alive then
          alive = patience
        end
      end
      if alive and alive > now then
        return member, alive
      end
      redis.call('ZREM', q, member)
      removed = removed + 1
    end
    if #members == 0 then
      return nil
    end
  until removed >= 48
  return nil, true
end

-- Enters a waiter behind all others, unless it is there already, and its client as alive until `alive`. A full server refuses the first write.
-- O(log n).
local function queue_enter(k, q, l, now, micros, member, alive, flag, called)
  local last = alive
  if flag and flag > alive then
    last = flag
  end
  redis.call('HSET', k, 'n', last)
  if not redis.call('ZSCORE', q, member) then
    local newest = redis.call('ZREVRANGE', q, 0, 0, 'WITHSCORES')[2]
    if newest and micros <= newest then
      micros = string.format('%.0f', newest + 1)
    end
    redis.call('ZADD', q, micros, member)
    if called and string.sub(called, 15) == member then
      -- It was called, did not come, and comes now: at the end, like everybody.
      redis.call('HDEL', k, 'y')
    end
  end
  redis.call('ZADD', l, alive, queue_client(member))
  redis.call('PEXPIRE', q, last - now)
  redis.call('PEXPIRE', l, last - now)
end

-- Tells a waiter that its turn has come.
local function queue_call(k, now, member)
  redis.call('HSET', k, 'y', (now + GRACE) .. ' ' .. member)
  local verb, channel, n = string.match(member, '^(%u+) (%S+) (%d+)')
  if verb ~= 'NONE' then
    redis.pcall(verb, channel, k .. ' ' .. n)
  end
end

-- Makes some living client look, when the dead at the front are too many for one script.
local function queue_call_any(k, l, now)
  local latest = redis.call('ZREVRANGE', l, 0, 0)[1]
  local verb, channel = string.match(latest or '', '^(%u+) (%S+)')
  if verb and verb ~= 'NONE' then
    redis.pcall(verb, channel, k)
  end
end

-- Returns whether `member` is the one to see to it that the queue goes on should the head, alive until `alive`, not come: the first waiter of another
-- client, among the first 16.
local function queue_is_second(q, head, member)
  local first, own = queue_client(head), queue_client(member)
  if first == own then
    return false
  end
  for _, other in ipairs(redis.call('ZRANGE', q, 1, 15)) do
    local client = queue_client(other)
    if client ~= first then
      return client == own
    end
  end
  return false
end

