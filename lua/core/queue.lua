-- The waiters of one object, served in the order in which they came. Goes behind core/publish.lua and in front of every script that reads or
-- writes such a queue; it has no effect by itself.
--
-- Q  sorted set, member `<verb> <channel> <n>[ <what>]` -> ticket, in µs and rising in order of arrival
-- L  sorted set, member `<channel>` up to a brace, a client -> ms until which its waiters count as alive. In a cluster a client has a channel for each shard, `<channel>{<tag>}`
-- K  fields: n  ms until which anybody may wait; nobody does if it is absent or over
--            y  `<ms> <member>`, who was called last, and until when it may take its time to come
--
-- A waiter is dead when its client has not been heard of for long, or when it was called and did not come. Dead ones at the front are removed by
-- whoever looks, 64 at most in one script.
-- Times are text of 13 digits and compared as such. Tickets have 16 digits and never pass through `..`.

-- How long a waiter that is called may take to come, in ms.
local GRACE = 5000

local function queue_client(member)
  return string.match(member, '^%u+ ([^ {]+)')
end

-- Tells whether `called`, the field y, names `member`.
local function queue_is_called(called, member)
  return called and string.sub(called, 15) == member
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
      if alive and queue_is_called(called, member) then
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

-- Enters the client of `member` as alive until `alive`. `flag` is the field n, `ends` the ms until which K surely lives. A full server refuses the first write.
-- O(log clients).
local function queue_touch(k, q, l, now, member, alive, flag, ends)
  local last = alive
  if flag and flag > alive then
    last = flag
  end
  redis.call('HSET', k, 'n', last)
  if not ends or ends < last then
    if redis.call('PTTL', k) < last - now then
      redis.call('PEXPIRE', k, last - now)
    end
  end
  redis.call('ZADD', l, alive, queue_client(member))
  redis.call('PEXPIRE', l, last - now)
  redis.call('PEXPIRE', q, last - now)
  return last
end

-- Enters a waiter, whose client was entered as alive, behind all others; returns 1, or 0 if it is there already, and the field y as it is from now on.
-- Q lives until `last`. O(log n).
local function queue_enter(k, q, now, micros, member, last, called)
  if redis.call('ZSCORE', q, member) then
    return 0, called
  end
  local newest = redis.call('ZRANGE', q, -1, -1, 'WITHSCORES')[2]
  if newest and micros <= newest then
    micros = string.format('%.0f', newest + 1)
  end
  redis.call('ZADD', q, micros, member)
  if not newest then
    redis.call('PEXPIRE', q, last - now)
  end
  if queue_is_called(called, member) then
    -- It was called, did not come, and comes now: at the end, like everybody.
    redis.call('HDEL', k, 'y')
    called = false
  end
  return 1, called
end

-- Tells a waiter that its turn has come. Begins with a write that a full server takes.
local function queue_call(k, now, member)
  redis.call('HDEL', k, '')
  redis.call('HSET', k, 'y', (now + GRACE) .. ' ' .. member)
  local verb, channel, n = string.match(member, '^(%u+) (%S+) (%d+)')
  publish(verb, channel, k .. ' ' .. n)
end

-- Makes some living client look, when the dead at the front are too many for one script: one of those who came last.
local function queue_call_any(k, q, l, now)
  for _, member in ipairs(redis.call('ZRANGE', q, -16, -1)) do
    local verb, channel = string.match(member, '^(%u+) (%S+)')
    local alive = redis.call('ZSCORE', l, queue_client(member))
    if verb ~= 'NONE' and alive and alive > now then
      publish(verb, channel, k)
      return
    end
  end
end

-- Returns the ms until which anybody before the first waiter of `client`, and among the first 16, counts as alive, where the head does until `alive`. When
-- that time is over and nobody has come, it is the client's turn to look. nil if that waiter is the head itself; also if it is not among the first 16,
-- unless `now` is given and 16 clients at most are alive: then all of them may look, and that is no herd.
local function queue_before(q, l, client, alive, now)
  local members = redis.call('ZRANGE', q, 0, 15)
  local ahead, found = {}, false
  for i = 1, #members do
    local other = queue_client(members[i])
    if other == client then
      if i == 1 then
        return nil
      end
      found = true
      break
    end
    if i > 1 and not ahead[other] then
      ahead[other] = true
    end
  end
  if not found and (not now or redis.call('ZCOUNT', l, '(' .. now, '+inf') > 16) then
    return nil
  end
  for one in pairs(ahead) do
    local until_then = redis.call('ZSCORE', l, one)
    if until_then and until_then > alive then
      alive = until_then
    end
  end
  return alive
end

