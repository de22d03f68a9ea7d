-- uses core/queue_join, pool/shared, core/act_before_each
-- Gives out permits of one pool that clients wait for to n waiters of one client, each by itself,
-- and queues those that cannot be served. Whatever is out of the ordinary is left as it is, and its
-- caller asks again by pool/acquire with the same attempt. This script follows
-- core/act_before_each.lua.
--
-- KEYS  1 K, 2 D, 3 Q, 4 L; see shared.lua
-- ARGV  1 act_before  last server time in ms at which this may act, the first of all limits
--       2 client  the part that all attempts have in common
--       3 kind    of the pool
--       4 lease   ms
--       5 waiter  ms the waiters' client counts as alive
--       6..       for each waiter: attempt, `:<n>`, to be appended to the client; permits; its
--                 member of Q; '' for one hold named like the attempt, '1' for a hold of one permit
-- Reply a text of one line per waiter: the reply of pool/acquire as a text, or an empty line if the
--       waiter is left as it is
-- Cost  O(n log waiters): TIME, HMGET, ZSCORE, ZRANGE; with grants HSET, ZADD, ZREM; with waiters
--       that cannot be served ZRANGE × 3, ZADD; a PUBLISH for each one that is notified meanwhile,
--       and once in FRESH ms the record that the client is alive.
--
-- Left as they are: a pool of another kind, without a size or with an end; an attempt that is
-- refused; all waiters if a dead one is in front of them; a copy of a granted attempt; a waiter
-- that needs more than the size; those that cannot be served if an expired hold has to be removed,
-- if the one in front of them is dead or needs more than the size, or if nobody waits yet.
--
-- Those who are in the queue are served in its order, and then those who are not: as if each had
-- asked by itself in this order. A full server refuses the first write.
local call = redis.call
local FRESH = 100
local k, d, q, l = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local client, kind, span, ttl = ARGV[2], ARGV[3], (now + ARGV[4]) .. '', ARGV[5]
local n = (#ARGV - 5) / 4
local fields, ids, lines = {'k', 's', 'c', 'v', 'n', 'y', 'u', 'e', 'r'}, {}, {}
for i = 1, n do
  local id = client .. ARGV[4 * i + 2]
  if ARGV[4 * i + 5] ~= '' then
    id = id .. ':0'
  end
  ids[i] = id
  fields[9 + i] = 'h:' .. id
  lines[i] = ''
end
local f = call('HMGET', k, unpack(fields))
if f[1] ~= kind or not f[2] or f[8] then
  return table.concat(lines, '\n')
end
local size, out = tonumber(f[2]), tonumber(f[3] or 0)
local called, rung = f[6], f[9]
local waiting = f[5] and f[5] > now

-- Those who can be served or queued here, by member and in the order in which they ask.
local mine, asking, needs, seen, channel, top = {}, {}, {}, {}, nil, f[4]
for i = 1, n do
  local need, id = tonumber(ARGV[4 * i + 3]), ids[i]
  local member = ARGV[4 * i + 4]
  channel = channel or queue_client(member)
  local each = ARGV[4 * i + 5] ~= '' and need ~= 1
  local refused
  top, refused = spend(top, client .. ARGV[4 * i + 2], ARGV[1], now)
  if refused and call('ZSCORE', q, member) then
    refused = false
  end
  if not refused and not f[9 + i] and not seen[id] and need <= size and not each and queue_client(member) == channel then
    seen[id] = true
    mine[member] = i
    asking[#asking + 1] = i
    needs[i] = need
  end
end

local room = size - out
local view, alive, last, lives = nil, nil, nil, {}
local write, granted, ring, gone, latest, head, blocked = {}, {}, {}, {}, nil, nil, false
if waiting then
  alive = call('ZSCORE', l, channel)
  if not alive or alive - now < ttl - FRESH then
    alive = (now + ttl) .. ''
    last = true
  end
  lives[channel] = alive
  view = pool_view(q, l, now, called, room, size, lives)
  if view.dead or view.more then
    return table.concat(lines, '\n')
  end
  for j = 1, view.n, 2 do
    local member = view[j]
    local need, i = pool_need(member), mine[member]
    if need > size then
      return table.concat(lines, '\n')
    elseif need > room then
      head = head or member
      blocked = true
      break
    end
    room = room - need
    if i then
      granted[i] = 1
      gone[#gone + 1] = member
    else
      if not head then
        head = member
        if not queue_is_called(called, member) then
          write[1], write[2] = 'y', (now + GRACE) .. ' ' .. member
        end
      end
      if not rung or view[j + 1] > rung then
        ring[#ring + 1] = member
        latest = view[j + 1]
      end
    end
  end
  blocked = blocked or not view.whole
end
local busy, served = {}, false
for j = 1, #asking do
  local i = asking[j]
  if not granted[i] then
    if not blocked and needs[i] <= room then
      room = room - needs[i]
      granted[i] = 0
    else
      blocked = true
      busy[#busy + 1] = i
    end
  end
  served = served or granted[i]
end
local first, who, until_then
if busy[1] and waiting then
  first = call('ZRANGE', d, 0, 0, 'WITHSCORES')[2]
  -- All that were read are served: the view ends before the next one.
  head = head or call('ZRANGE', q, #gone, #gone)[1] or ARGV[4 * busy[1] + 4]
  who = queue_client(head)
  until_then = lives[who]
  if until_then == nil then
    until_then = call('ZSCORE', l, who)
  end
  until_then = until_then or now
  if until_then <= now or first and first <= now or pool_need(head) > size then
    busy = {}
  end
else
  busy = {}
end
if not served and not busy[1] then
  return table.concat(lines, '\n')
end
if last then
  last = queue_touch(k, q, l, now, ARGV[8], alive, f[5], '9')
end

local index, number, spent = {}, nil, f[4]
for j = 1, #asking do
  local i = asking[j]
  if granted[i] then
    out = out + needs[i]
    write[#write + 1], write[#write + 2] = fields[9 + i], span .. ' ' .. needs[i] .. ' 0'
    index[#index + 1], index[#index + 2] = span, ids[i]
    spent = spend(spent, client .. ARGV[4 * i + 2], ARGV[1], now)
    -- Each hold of a pool has a number of its own, though all have the same time.
    number = number and string.format('%.0f', number + 1) or micros
    lines[i] = now .. ' granted ' .. needs[i] .. ' ' .. number .. '  ' .. granted[i]
  end
end
if latest then
  write[#write + 1], write[#write + 2] = 'r', latest
  rung = latest
end
if index[1] then
  write[#write + 1], write[#write + 2] = 'c', out
  write[#write + 1], write[#write + 2] = 'v', spent
  if not f[7] or f[7] < span then
    write[#write + 1], write[#write + 2] = 'u', span
  end
end
if write[1] then
  call('HSET', k, unpack(write))
end
if index[1] then
  call('ZADD', d, unpack(index))
end
if gone[1] then
  call('ZREM', q, unpack(gone))
end

if busy[1] then
  -- They join behind all others and behind all that were notified.
  local newest = call('ZRANGE', q, -1, -1, 'WITHSCORES')[2]
  local ticket = micros
  if newest and ticket <= newest then
    ticket = string.format('%.0f', newest + 1)
  end
  if rung and ticket <= rung then
    ticket = string.format('%.0f', rung + 1)
  end
  local join, tickets = {}, {}
  for j = 1, #busy do
    local at = 4 * busy[j]
    join[2 * j - 1], join[2 * j] = ticket, ARGV[at + 4]
    tickets[j] = ticket
    ticket = string.format('%.0f', ticket + 1)
  end
  local entered = call('ZADD', q, 'NX', unpack(join))
  if not newest then
    call('PEXPIRE', q, (last or f[5]) - now - 1)
  end
  local low
  for j = 1, #busy do
    local member, new = join[2 * j], 1
    if entered < #busy then
      local has = call('ZSCORE', q, member)
      new = has == tickets[j] and 1 or 0
      if rung and has <= rung and (not low or has < low) then
        low = has
      end
    end
    if queue_is_called(called, member) then
      -- It was notified, and came too early or too late.
      call('HDEL', k, 'y')
    end
    busy[j] = {busy[j], new}
  end
  if low then
    -- It was notified, and has to be notified again.
    call('HSET', k, 'r', string.format('%.0f', low - 1))
  end
  local remaining = ''
  local fits = pool_need(head) <= size - out
  if fits and now + GRACE < until_then + 0 then
    until_then = (now + GRACE) .. ''
  end
  local turn = ''
  if who ~= channel then
    local before = queue_before(q, l, channel, until_then, now)
    remaining = before and before - now or ''
  elseif fits then
    remaining = until_then - now
    turn = string.match(head, '^%u+ %S+ (%d+)')
  elseif first then
    remaining = first - now
  end
  for j = 1, #busy do
    local i, new = busy[j][1], busy[j][2]
    lines[i] = now .. ' busy ' .. remaining .. ' ' .. turn .. ' ' .. new
  end
elseif view and view.whole and 2 * #gone == view.n then
  call('HDEL', k, 'n', 'y', 'r')
  call('DEL', l)
end
for j = 1, #ring do
  pool_ring(k, ring[j])
end
return table.concat(lines, '\n')
