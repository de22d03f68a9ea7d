-- uses pool/shared, core/queue_join, core/act_before
-- Gives out n permits, as one hold or as n holds of one each, or queues a waiter. This script
-- follows core/act_before.lua as well.
--
-- KEYS  1 K, 2 D, 3 Q, 4 L; see shared.lua
-- ARGV  1 act_before  last server time in ms at which this may act
--       2 kind    of the pool
--       3 attempt `<client>:<n>`, never used twice
--       4 n       permits, 1 or more
--       5 lease   ms
--       6 size    default size of a pool without one, or ''
--       7 waiter  ms the waiter's client counts as alive if there are too few, or '' not to wait
--       8 address the member of Q, `<verb> <channel> <n> <permits>[ <order>]`, or '' for an attempt
--         that ends with a busy answer
--       9 each    '' for one hold, named like the attempt; '1' for n holds of one permit,
--                 `<attempt>:<0 to n-1>`
-- Reply {now, 'granted', n, token, lasts, place}
--                lasts = ms from now if that is less than the requested lease (the pool expires),
--                else ''; place = 1 if this waiter was in the queue, 0 if not; absent in the answer
--                to a copy
--       {now, 'busy', remaining, called, entered}
--                remaining = ms until the next re-check, '' to leave that to others; called = n of
--                the waiter of this client whose turn it is, or one that holds by a release and
--                has not confirmed it, or ''; entered = 1 if this waiter was not in the queue
--                before
--       {now, 'more'}                       too much to remove in one call: ask again at once
--       {now, 'large', size}                n is more than the size
--       {now, 'unset'}                      the size is not set
--       {now, 'late'}                       `act_before` has passed
--       {now, 'void'}                       this attempt has ended, or counts as ended
--       {now, 'kind', kind}                 the name is of another kind
-- Cost  O(log n): TIME, HMGET, HSET, ZADD when there is room and nobody waits; O(n) with `each`.
--       Who was notified also ZSCORE, ZRANGE, ZREM. Who queues TIME, HMGET, ZSCORE, ZRANGE × 3,
--       ZADD. Once in FRESH ms + HSET, ZADD, PEXPIRE × 2 for the client; with several clients a
--       ZSCORE for each of those in front, 16 at most; with expired holds their removal; a PUBLISH
--       for each waiter that is notified.
--
-- A client that was recorded as alive within the last FRESH ms is not recorded again. Anything that
-- a full server would accept comes after a write that it refuses.
local call = redis.call
local FRESH = 100
local k, d, q, l = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local attempt, need, address = ARGV[3], tonumber(ARGV[4]), ARGV[8]
local ids = {attempt}
if ARGV[9] ~= '' then
  for i = 1, need do
    ids[i] = attempt .. ':' .. i - 1
  end
end
local fields = {'k', 's', 'c', 'v', 'n', 'y', 'u', 'e', 'r'}
for i = 1, #ids do
  fields[9 + i] = 'h:' .. ids[i]
end
local f = call('HMGET', k, unpack(fields))
if f[1] and f[1] ~= ARGV[2] then
  return {now, 'kind', f[1]}
end
if f[8] and f[8] <= now then
  -- The pool has expired. What refuses attempts is left.
  pool_delete(k, d, ARGV[2], f[4], 10000)
  f = {f[4] and ARGV[2], false, false, f[4]}
end

local out, size, ends, latest = tonumber(f[3] or 0), f[2], f[8], f[7]
local span, lasts = (now + ARGV[5]) .. '', ''
if ends and ends < span then
  span = ends
  lasts = ends - now
end
local over, longer, granted, withdrawn = {}, {}, false, false
for i = 1, #ids do
  local hold = f[9 + i]
  if hold then
    local before = string.sub(hold, 1, 13)
    if before > now and string.sub(hold, 14, 16) == ' 0 ' then
      -- Its client has withdrawn it.
      withdrawn = true
    elseif before > now then
      granted = true
      if before < span then
        longer[#longer + 1] = 'h:' .. ids[i]
        longer[#longer + 1] = span .. string.match(hold, ' %d+ %d+')
      end
    else
      over[#over + 1] = 'h:' .. ids[i]
      out = out - string.match(hold, ' (%d+)')
    end
  end
end
if granted then
  -- A copy of a granted acquire.
  if longer[1] then
    if latest < span then
      longer[#longer + 1], longer[#longer + 2] = 'u', span
    end
    call('HSET', k, unpack(longer))
  end
  return {now, 'granted', need, micros, lasts}
end
local spent, refused = spend(f[4], attempt, ARGV[1], now)
if withdrawn or refused and (address == '' or not call('ZSCORE', q, address)) then
  return {now, 'void'}
end
if not size then
  if ARGV[6] == '' then
    return {now, 'unset'}
  end
  size = ARGV[6]
end
size = tonumber(size)
if need > size then
  return {now, 'large', size}
end
if over[1] then
  -- Its lease ended before this copy arrived. A full server refuses the first write.
  call('HSET', k, 'c', out)
  call('HDEL', k, unpack(over))
end

local room = size - out
local left, place = room, 0
local member = address ~= '' and address
local called, rung = f[6], f[9]
local waiting = f[5] and f[5] > now
local view, last, alive, first, more, lives

if waiting or room < need then
  -- Records the client as alive. A full server refuses this.
  local function touch()
    alive = (now + ARGV[7]) .. ''
    last = queue_touch(k, q, l, now, member, alive, f[5], '9')
  end

  -- Looks at the queue, and whether there is room beside those who came before.
  local function look()
    if waiting then
      view = pool_view(q, l, now, called, room, size, lives)
      if view.dead then
        if alive and not last then
          touch()
        end
        call('ZREM', q, unpack(view.dead))
      end
    end
    left, place = nil, 0
    if room >= need and not view then
      left = room
    elseif room >= need then
      left, place = pool_left(view, room, size, member, need)
    end
  end

  lives = {}
  if ARGV[7] ~= '' then
    local client = queue_client(member)
    alive = waiting and call('ZSCORE', l, client)
    if not alive or alive - now < ARGV[7] - FRESH then
      touch()
    end
    lives[client] = alive
    waiting = true
  end
  look()
  if not left then
    first = call('ZRANGE', d, 0, 0, 'WITHSCORES')[2]
    if first and first <= now then
      if alive and not last then
        touch()
      end
      out, more = reap(k, d, now, out)
      room = size - out
      first = nil
      look()
    end
    if view and view.more or more and room < need then
      return {now, 'more'}
    end
  end
end

if left then
  local write = {'c', out + need, 'v', spent}
  if not f[1] then
    write[5], write[6] = 'k', ARGV[2]
  end
  if not f[2] then
    write[#write + 1], write[#write + 2] = 's', ARGV[6]
  end
  if not latest or latest < span then
    write[#write + 1], write[#write + 2] = 'u', span
  end
  local each = need
  if ARGV[9] ~= '' then
    each = 1
  end
  local ring, gone
  if view then
    ring, gone = pool_plan(view, now, called, rung, room - need, size, member, write)
  end
  local index = {}
  for i = 1, #ids do
    write[#write + 1], write[#write + 2] = 'h:' .. ids[i], span .. ' ' .. each .. ' 0'
    index[2 * i - 1], index[2 * i] = span, ids[i]
  end
  call('HSET', k, unpack(write))
  call('ZADD', d, unpack(index))
  if ends then
    call('PEXPIRE', d, ends - now)
  elseif f[1] and not f[2] then
    call('PERSIST', k)
  end
  if view then
    pool_ring_all(k, q, l, view, ring, gone)
  end
  return {now, 'granted', need, micros, lasts, place}
end

local entered, head = 0, nil
if view then
  head = view.n > 0 and view[1]
end
if alive then
  local ticket
  entered, ticket = pool_enter(q, now, micros, member, last or f[5], rung)
  if queue_is_called(called, member) then
    -- It was notified, and came too early or too late.
    call('HDEL', k, 'y')
    called = false
  end
  if rung and ticket <= rung then
    -- It was notified, and has to be notified again.
    rung = string.format('%.0f', ticket - 1)
    call('HSET', k, 'r', rung)
  end
end
if view then
  local write = {}
  local ring, gone = pool_plan(view, now, called, rung, room, size, nil, write)
  if write[1] then
    call('HSET', k, unpack(write))
  end
  if ring then
    if gone then
      call('ZREM', q, unpack(gone))
      view = pool_view(q, l, now, false, room, size, lives)
      head = view.n > 0 and view[1]
    end
    for i = 1, #ring do
      pool_ring(k, ring[i])
    end
  end
  alive = head and view.alive or alive
  head = head or member
end
local remaining, who = '', ''
if head and member then
  local fits = pool_need(head) <= room
  if fits and now + GRACE < alive + 0 then
    alive = (now + GRACE) .. ''
  end
  if queue_client(head) ~= queue_client(member) then
    local before = queue_before(q, l, queue_client(member), alive, now)
    remaining = before and before - now or ''
  elseif fits then
    remaining = alive - now
    who = tonumber(string.match(head, '^%u+ %S+ (%d+)'))
  else
    first = first or call('ZRANGE', d, 0, 0, 'WITHSCORES')[2]
    if first then
      remaining = math.max(first - now, 0)
    end
  end
end
if who == '' and member and entered == 0 then
  -- A waiter that has just come hears nothing of it: the message is on its way.
  local client = string.match(attempt, '^[^:]*')
  who = tonumber(pool_unheard(k, d, now, client, 16)[1]) or ''
end
if address == '' then
  -- Nobody undoes the attempt. Where the server takes no writes, no copy can act either.
  redis.pcall('HSET', k, 'v', spent)
end
return {now, 'busy', remaining, who, entered}
