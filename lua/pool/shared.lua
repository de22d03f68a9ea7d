-- uses core/queue, core/attempts
-- The functions that the scripts of a pool share. This part follows core/queue.lua and
-- core/attempts.lua, and precedes the scripts that give out or take back permits.
--
-- K  hash
--      k         kind
--      s         size, absent if it is not set
--      c         permits out, including those of expired holds that are not yet removed
--      u         ms, the latest end of any lease so far
--      e         ms at which the pool expires, absent if never
--      h:<hold>  `<ms until> <permits> <forgotten>`, a hold: permits given out together; with
--                ` g` at its end if a release has granted it and its holder has confirmed
--                nothing. It has no permits if its client has withdrawn it, and its release may be
--                on its way
--      n, y      the queue's, see core/queue.lua; y names the head, once it can be served
--      r         ticket up to which waiters were notified, absent if nobody was. Who is notified
--                and does not get its permits lowers it
--      v         attempts that may not act, see core/attempts.lua
-- D  sorted set, hold -> ms before which its lease does not end; a renewal moves only the end in K,
--    and the removal of expired holds corrects this
-- Q, L  the queue; a member is `<verb> <channel> <n> <need>`, and may end with an order,
--       ` g<lease>.<ttl>.<nonce>`: its waiter accepts a hold that a release writes for it. lease is
--       in ms; ttl has no meaning here; nonce is 16 hexadecimal digits
-- K and D last until the pool is deleted, unless it has a TTL.

-- Longest lease of a hold that its holder has not confirmed, in ms.
local UNCONFIRMED = 5000

-- Writes the fields `write`, the number of permits out among them, and then removes the holds
-- `over`. In this order no error in between loses permits. Begins with HDEL, which a full server
-- accepts, and which shows that the removal is allowed.
local function pool_end(k, write, over)
  redis.call('HDEL', k, '')
  redis.call('HSET', k, unpack(write))
  if over[1] then
    redis.call('HDEL', k, unpack(over))
  end
end

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
  local over, gone, moved = {}, {}, {}
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
  if over[1] then
    pool_end(k, {'c', out}, over)
  else
    redis.call('HDEL', k, '')
  end
  if gone[1] then
    redis.call('ZREM', d, unpack(gone))
  end
  if moved[1] then
    redis.call('ZADD', d, unpack(moved))
  end
  return out, #ids == 64, over[1] ~= nil
end

-- Deletes K and D. What refuses attempts outlives the pool, since a copy may still come: `v` is
-- that field, and K lives for another `keep` ms if there is one. O(holds).
local function pool_delete(k, d, kind, v, keep)
  redis.call('DEL', k, d)
  if v then
    redis.call('HSET', k, 'k', kind, 'v', v)
    redis.call('PEXPIRE', k, keep)
  end
end

local function pool_need(member)
  return tonumber(string.match(member, '^%u+ %S+ %d+ (%d+)'))
end

local function pool_ring(k, member)
  local verb, channel, n = string.match(member, '^(%u+) (%S+) (%d+)')
  publish(verb, channel, k .. ' ' .. n)
end

-- The most waiters that one call serves. Each costs less than the request it would send otherwise.
local SERVED = 256

-- Reads the first waiters: as many as `room` may serve, SERVED at most, and the head in any case.
-- `lives` has deadlines of clients that are known already. Returns living members and their tickets
-- in turn, with the fields
--
--   n      number of items that count, two for each waiter
--   alive  ms until which the head is alive
--   dead   those that have to be removed, about 64 at most; nil if there are none
--   whole  true if nobody waits behind these
--   more   true if there are too many dead ones before the head
--   room   permits that these leave
--
-- Writes nothing. O(log n + room), and O(dead).
local function pool_view(q, l, now, called, room, size, lives)
  local read = math.max(1, math.min(room, SERVED))
  local view = redis.call('ZRANGE', q, 0, read - 1, 'WITHSCORES')
  local whole, at, dead = #view < 2 * read, 1, nil
  while at < 2 * SERVED do
    local member = view[at]
    if member then
      local client = queue_client(member)
      local alive = lives[client]
      if alive == nil then
        alive = redis.call('ZSCORE', l, client)
        lives[client] = alive
      end
      if alive and at == 1 and queue_is_called(called, member) then
        local patience = string.sub(called, 1, 13)
        if patience < alive then
          alive = patience
        end
      end
      if alive and alive > now then
        if at == 1 then
          view.alive = alive
        end
        at = at + 2
        -- A waiter that needs more than the size gets an error and no permits.
        local need = pool_need(member)
        if need <= size then
          room = room - need
        end
        if room < 1 then
          break
        end
      else
        dead = dead or {}
        dead[#dead + 1] = member
        table.remove(view, at)
        table.remove(view, at)
      end
    elseif whole or dead and #dead >= 48 then
      break
    else
      local some = redis.call('ZRANGE', q, read, read + 15, 'WITHSCORES')
      whole = #some < 32
      read = read + 16
      for i = 1, #some do
        view[#view + 1] = some[i]
      end
    end
  end
  view.n = at - 1
  view.dead = dead
  view.whole = whole and at > #view
  view.more = at == 1 and not whole
  view.room = room
  return view
end

-- Grants the permits to a waiter that has an order, and tells it. Returns true if it did; false if
-- the waiter has no order, if the server refuses the message, or if its attempt holds already. A
-- write that a full server accepts has to precede it. Adds the hold to `write` and `grants`, which
-- has
--
--   k, now, micros  key and time
--   out             permits out
--   latest          field u
--   spent           field v
--   index           new entries of D
--   told            ` granted <attempt> <grant>` for each grant, for the reply
--   client          the client that gets the reply, if it passes grants on to its own waiters: they
--                   get no message
--
-- O(1): HGET, PUBLISH.
local function pool_give(grants, member, need, write)
  local verb, channel, n, lease, nonce =
    string.match(member, '^(%u+) (%S+) (%d+) %d+ g(%d+)%.%d+%.(%x+)$')
  local client = nonce and string.match(channel, '^[^{]*:([^:{]+)')
  if not client or verb == 'NONE' or #n > 15 or #lease > 15 then
    return false
  end
  local span = lease + 0
  if span > UNCONFIRMED then
    span = UNCONFIRMED
  end
  local k, ends = grants.k, (grants.now + span) .. ''
  local hold = client .. ':' .. n
  local grant = ' g' .. nonce .. '.' .. grants.micros .. '.' .. ends .. '.0'
  local held = grants.index[hold] or redis.call('HGET', k, 'h:' .. hold)
  if held or client ~= grants.client and publish(verb, channel, k .. ' ' .. n .. grant) then
    return false
  end
  write[#write + 1], write[#write + 2] = 'h:' .. hold, ends .. ' ' .. need .. ' 0 g'
  local index = grants.index
  index[hold] = true
  index[#index + 1], index[#index + 2] = ends, hold
  grants.out = grants.out + need
  -- No request was sent later than now.
  grants.spent = spend(grants.spent, hold, (grants.now + REACH) .. '', grants.now)
  if not grants.latest or grants.latest < ends then
    grants.latest = ends
  end
  grants.told = grants.told .. ' granted ' .. hold .. grant
  -- Each hold of a pool has a number of its own, though all have the same time.
  grants.micros = string.format('%.0f', grants.micros + 1)
  return true
end

-- Returns the state of a script that grants to waiters, see pool_give.
local function pool_grants(k, now, micros, out, latest, spent, client)
  return {
    k = k, now = now, micros = micros, out = out, latest = latest, spent = spent, index = {}, told = '',
    client = client,
  }
end

-- Appends what `told` has about grants to a reply.
local function pool_tell(reply, told)
  for word in string.gmatch(told, '%S+') do
    reply[#reply + 1] = word
  end
end

-- Returns the numbers of the attempts of `client` that hold by a grant that they have not
-- confirmed, among `most` of D. They are the first of those that may be such, or with `fresh` the
-- last, where a grant of this moment is. O(log n + most).
local function pool_unheard(k, d, now, client, most, fresh)
  local ids
  if fresh then
    ids = redis.call('ZRANGE', d, now + UNCONFIRMED, '(' .. now, 'BYSCORE', 'REV', 'LIMIT', 0, most)
  else
    ids = redis.call('ZRANGEBYSCORE', d, '(' .. now, now + UNCONFIRMED, 'LIMIT', 0, most)
  end
  local fields, numbers = {}, {}
  for i = 1, #ids do
    local of, n = string.match(ids[i], '^([^:]+):(%d+)$')
    if of == client then
      fields[#fields + 1] = 'h:' .. ids[i]
      numbers[#numbers + 1] = n
    end
  end
  local unheard = {}
  if fields[1] then
    local holds = redis.call('HMGET', k, unpack(fields))
    for i = 1, #fields do
      if holds[i] and string.sub(holds[i], -2) == ' g' then
        unheard[#unheard + 1] = numbers[i]
      end
    end
  end
  return unheard
end

-- Decides who is served or notified: the first waiters, as far as `room` suffices for all of them
-- together, but for those up to the ticket `rung`, who were notified before. `mine` has those that
-- ask now, by member: they are served, and get `place` = 1. With `grants`, the others who have an
-- order get their permits, see pool_give. A waiter that needs more than the size is removed, and
-- notified to get its error. Adds the new fields y and r to `write`. Returns those to notify and
-- those to remove, nil for none, and the room beside all waiters, nil if it is too small for them
-- or if not all were read.
local function pool_plan(view, now, called, rung, room, size, mine, write, grants)
  local ring, gone, first, latest, blocked = nil, nil, true, nil, not view.whole
  for i = 1, view.n, 2 do
    local member = view[i]
    local need = pool_need(member)
    if need > size then
      gone, ring = gone or {}, ring or {}
      gone[#gone + 1], ring[#ring + 1] = member, member
    elseif need > room then
      blocked = true
      break
    else
      room = room - need
      local new = not rung or view[i + 1] > rung
      local served = mine[member]
      if served then
        served.place = 1
      end
      if served or new and grants and pool_give(grants, member, need, write) then
        gone = gone or {}
        gone[#gone + 1] = member
      else
        if first and not queue_is_called(called, member) then
          write[#write + 1], write[#write + 2] = 'y', (now + GRACE) .. ' ' .. member
        end
        first = false
        if new then
          ring = ring or {}
          ring[#ring + 1] = member
          latest = view[i + 1]
        end
      end
    end
  end
  if latest then
    write[#write + 1], write[#write + 2] = 'r', latest
  end
  return ring, gone, not blocked and room or nil, latest
end

-- Continues where all waiters of `view` are `gone`, and removed, after all other writes: makes one
-- of those behind them look if there is room, or removes what an empty queue has left.
local function pool_continue(k, q, l, now, view, gone)
  if 2 * #(gone or '') == view.n then
    if view.whole then
      redis.call('HDEL', k, 'n', 'y', 'r')
      redis.call('DEL', l)
    elseif view.room > 0 then
      queue_call_any(k, q, l, now)
    end
  end
end

-- Notifies the first waiters, at most SERVED, as far as `room` suffices for all of them together,
-- and sets the fields `write`. With `grants`, those who have an order get their permits, see
-- pool_give, and if none of those read stays, one behind them is notified. A write that a full
-- server accepts precedes it.
local function pool_serve(k, d, q, l, now, called, rung, room, size, write, grants)
  local view = pool_view(q, l, now, called, room, size, {})
  if view.dead then
    redis.call('ZREM', q, unpack(view.dead))
  end
  local latest = grants and grants.latest
  local ring, gone = pool_plan(view, now, called, rung, room, size, {}, write, grants)
  if grants and grants.told ~= '' then
    write[#write + 1], write[#write + 2] = 'c', grants.out
    write[#write + 1], write[#write + 2] = 'v', grants.spent
    if grants.latest ~= latest then
      write[#write + 1], write[#write + 2] = 'u', grants.latest
    end
  end
  if write[1] then
    redis.call('HSET', k, unpack(write))
  end
  if grants and grants.index[1] then
    redis.call('ZADD', d, unpack(grants.index))
  end
  if gone then
    redis.call('ZREM', q, unpack(gone))
  end
  pool_continue(k, q, l, now, view, gone)
  for i = 1, #(ring or '') do
    pool_ring(k, ring[i])
  end
end
