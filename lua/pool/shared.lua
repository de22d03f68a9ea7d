-- The functions that the scripts of a pool share. This part follows core/queue.lua and
-- core/marks.lua, and precedes the scripts that give out or take back permits.
--
-- K  hash
--      k         kind
--      s         size, absent if it is not set
--      c         permits out, including those of expired holds that are not yet removed
--      u         ms, the latest end of any lease so far
--      e         ms at which the pool expires, absent if never
--      h:<hold>  `<ms until> <permits> <forgotten>`, a hold: permits given out together
--      n, y      the queue's, see core/queue.lua
--      v, v<i>, v:<attempt>  void marks, see core/marks.lua
-- D  sorted set, hold -> ms before which its lease does not end; a renewal moves only the end in K,
--    and the removal of expired holds corrects this
-- Q, L  the queue; a member is `<verb> <channel> <n> <need>`
-- K and D last until the pool is deleted, unless it has a TTL.

-- Removes expired holds, at most 64. Returns the number of permits out, whether there may be more
-- to remove, and whether any was removed. Begins with HDEL, which a full server accepts. O(log n +
-- 64).
local function reap(k, d, now, out)
  local ids = redis.call('ZRANGEBYSCORE', d, '-inf', now, 'LIMIT', 0, 64)
  if not ids[1] then
    return out, false, false
  end
  local fields = {}
  for i = 1, #ids do
    fields[i] = 'h:' .. ids[i]
  end
  local holds = redis.call('HMGET', k, unpack(fields))
  local over, gone, moved = {''}, {}, {}
  for i = 1, #ids do
    local hold = holds[i]
    if hold and string.sub(hold, 1, 13) > now then
      moved[#moved + 1] = string.sub(hold, 1, 13)
      moved[#moved + 1] = ids[i]
    else
      gone[#gone + 1] = ids[i]
      if hold then
        over[#over + 1] = fields[i]
        out = out - string.match(hold, ' (%d+)')
      end
    end
  end
  redis.call('HDEL', k, unpack(over))
  if over[2] then
    redis.call('HSET', k, 'c', out)
  end
  if gone[1] then
    redis.call('ZREM', d, unpack(gone))
  end
  if moved[1] then
    redis.call('ZADD', d, unpack(moved))
  end
  return out, #ids == 64, over[2] ~= nil
end

-- Deletes K and D. Void marks outlive the pool, since a copy may still come: `v` is their list, and
-- K lives for another `keep` ms if there are any. O(marks).
local function pool_delete(k, d, kind, v, keep)
  local first, last = string.match(v or '', '^(%d+) (%d+)')
  local parts = {}
  for i = tonumber(first or 1), tonumber(last or 0) do
    local chunk = redis.call('HGET', k, 'v' .. i) or ''
    local fields = {}
    for attempt in string.gmatch(string.sub(chunk, 15), '%S+') do
      fields[#fields + 1] = 'v:' .. attempt
    end
    local part = {'v' .. i, chunk}
    if fields[1] then
      local ends = redis.call('HMGET', k, unpack(fields))
      for j = 1, #fields do
        if ends[j] then
          part[#part + 1], part[#part + 2] = fields[j], ends[j]
        end
      end
    end
    parts[#parts + 1] = part
  end
  redis.call('DEL', k, d)
  for i = 1, #parts do
    redis.call('HSET', k, unpack(parts[i]))
  end
  if parts[1] then
    redis.call('HSET', k, 'k', kind, 'v', v)
    redis.call('PEXPIRE', k, keep)
  end
end

local function pool_need(member)
  return tonumber(string.match(member, '%d+$'))
end

local function pool_ring(k, member)
  local verb, channel, n = string.match(member, '^(%u+) (%S+) (%d+)')
  publish(verb, channel, k .. ' ' .. n)
end

-- Returns the rest of `room` after the needs of all waiters before `me`, judged by the first 16.
-- Returns nil if those do not suffice to tell, or if less than `need` is left.
local function pool_left(q, l, now, room, size, me, need)
  local members = redis.call('ZRANGE', q, 0, 15)
  for i = 1, #members do
    local member = members[i]
    if member == me then
      return room
    end
    local other = pool_need(member)
    -- A waiter that needs more than the size gets an error, and a dead one gets nothing.
    if other <= size then
      local alive = redis.call('ZSCORE', l, queue_client(member))
      if alive and alive > now then
        room = room - other
        if room < need then
          return nil
        end
      end
    end
  end
  if #members == 16 then
    return nil
  end
  return room
end

-- Notifies the first waiters, at most 16, as far as `room` suffices for all of them together. A
-- waiter that needs more than the size is notified to get its error. With `all`, waiters that were
-- notified before are notified again, since there is more room. Returns true if a waiter left the
-- queue. Publishes, so it runs after all other writes.
local function pool_serve(k, q, l, now, called, room, size, all)
  local head, more = queue_head(q, l, now, called)
  if not head then
    if more then
      queue_call_any(k, q, l, now)
    else
      redis.call('HDEL', k, 'n', 'y')
      redis.call('DEL', l)
    end
    return true
  end
  local members = redis.call('ZRANGE', q, 0, 15)
  local first, removed = true, false
  for i = 1, #members do
    local member = members[i]
    local need = pool_need(member)
    if need > size then
      redis.call('ZREM', q, member)
      pool_ring(k, member)
      removed = true
    elseif need > room then
      return removed
    else
      local alive = i == 1 or redis.call('ZSCORE', l, queue_client(member))
      if alive == true or alive and alive > now then
        room = room - need
        if first and not queue_is_called(called, member) then
          queue_call(k, now, member)
        elseif all or i == 16 then
          pool_ring(k, member)
        end
        first = false
      else
        redis.call('ZREM', q, member)
        removed = true
      end
    end
  end
  return removed
end

