-- The waiters of one object, served in order of arrival. This part follows core/publish.lua and
-- precedes every script that uses such a queue. It does nothing by itself.
--
-- Q  sorted set, member `<verb> <channel> <n>[ <what>]` -> ticket, in µs and rising in order of
--    arrival
-- L  sorted set, member `<channel>` up to a brace, a client -> ms until which its waiters count as
--    alive. In a cluster a client has a channel for each shard, `<channel>{<tag>}`
-- K  fields
--      n  ms until which there may be waiters; none if it is absent or over
--      y  `<ms> <member>`, the waiter that was notified last, and the ms until which it may come
--
-- A waiter is dead if its client has sent nothing for long, or if it was notified and did not come.
-- Each script that looks removes dead waiters at the front, 64 at most. Times are text of 13 digits
-- and compared as text. Tickets have 16 digits and never pass through `..`.

-- How long a notified waiter may take to come, in ms.
local GRACE = 5000

local function queue_client(member)
  return string.match(member, '^%u+ ([^ {]+)')
end

-- Returns true if `called`, the field y, names `member`.
local function queue_is_called(called, member)
  return called and string.sub(called, 15) == member
end

-- Returns the first living member, and the ms until which it is alive. Returns nil if there is
-- none, and nil, true, true if too many dead ones precede it; the third value says only that. O(log
-- n) and O(dead, at most 64). Writes only if some are dead.
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
  return nil, true, true
end

-- Records the client of `member` as alive until `alive`. `flag` is the field n, `ends` the ms until
-- which K certainly lives. A full server refuses the first write. O(log clients).
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

-- Adds a waiter, whose client is recorded as alive, behind all others. Returns 1, or 0 if it is
-- there already, and the new field y. Q lives until `last`. O(log n).
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
    -- It was notified and did not come in time: it joins at the end.
    redis.call('HDEL', k, 'y')
    called = false
  end
  return 1, called
end

-- Notifies a waiter of its turn. Begins with a write that a full server accepts.
local function queue_call(k, now, member)
  redis.call('HDEL', k, '')
  redis.call('HSET', k, 'y', (now + GRACE) .. ' ' .. member)
  local verb, channel, n = string.match(member, '^(%u+) (%S+) (%d+)')
  publish(verb, channel, k .. ' ' .. n)
end

-- Makes a living client look when too many dead waiters are at the front for one script: one of
-- those that came last.
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

-- Returns the ms until which any of those before the first waiter of `client` counts as alive, if
-- that waiter is among the first 16. The head is alive until `alive`. After that time, if nobody
-- has come, the client should look. Returns nil if that waiter is the head itself. Also nil if it
-- is not among the first 16, unless `now` is given and at most 16 clients are alive: then all of
-- them may look.
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

