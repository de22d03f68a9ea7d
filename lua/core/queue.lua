-- uses core/publish
-- The waiters of one object, served in order of arrival. This part follows core/publish.lua and
-- precedes every script that uses such a queue. It does nothing by itself.
--
-- Q  sorted set, member `<verb> <channel> <n>[ <what>]` -> ticket, in µs and rising in order of
--    arrival
-- L  sorted set, member `<channel>` up to a brace, a client -> ms until which its waiters count as
--    alive. In a cluster a client has a channel for each shard, `<channel>{<tag>}`
-- K  fields
--      n  ms until which there may be waiters, none if it is absent or over; later than the latest
--         time in L
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
-- none, and nil, true, true if too many dead ones precede it; the third value says only that.
-- `known` is a client that is alive until `known_until`, or nil. O(log n) and O(dead, at most 64).
-- Writes only if some are dead.
local function queue_head(q, l, now, called, known, known_until)
  local removed = 0
  local count = 0
  repeat
    local members = redis.call('ZRANGE', q, 0, count)
    count = 15
    for i = 1, #members do
      local member = members[i]
      local client = queue_client(member)
      local alive = client == known and known_until or redis.call('ZSCORE', l, client)
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

-- Notifies a waiter of its turn. Begins with a write that a full server accepts.
local function queue_call(k, now, member)
  redis.call('HDEL', k, '')
  redis.call('HSET', k, 'y', (now + GRACE) .. ' ' .. member)
  local verb, channel, n = string.match(member, '^(%u+) (%S+) (%d+)')
  publish(verb, channel, k .. ' ' .. n)
end

-- Makes a living waiter look when too many are at the front for one script: one of those that came
-- last. A message without its number may reach one that has just been granted.
local function queue_call_any(k, q, l, now)
  for _, member in ipairs(redis.call('ZRANGE', q, -16, -1)) do
    local verb, channel, n = string.match(member, '^(%u+) (%S+) (%d+)')
    local alive = redis.call('ZSCORE', l, queue_client(member))
    if verb ~= 'NONE' and alive and alive > now then
      publish(verb, channel, k .. ' ' .. n)
      return
    end
  end
end

