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
--       8 address for the notification, `<verb> <channel> <n>`, or ''
--       9 each    '' for one hold, named like the attempt; '1' for n holds of one permit,
--                 `<attempt>:<0 to n-1>`
-- Reply {now, 'granted', n, token, lasts, place}
--                lasts = ms from now if that is less than the requested lease (the pool expires),
--                else ''; place = 1 if this waiter was in the queue, 0 if not; absent in the answer
--                to a copy
--       {now, 'busy', remaining, called, entered}
--                remaining = ms until the next re-check, '' to leave that to others; called = n of
--                the waiter of this client whose turn it is, or ''; entered = 1 if this waiter was
--                not in the queue before
--       {now, 'more'}                       too much to remove in one call: ask again at once
--       {now, 'large', size}                n is more than the size
--       {now, 'unset'}                      the size is not set
--       {now, 'late'}                       `act_before` has passed
--       {now, 'void'}                       this attempt was undone
--       {now, 'kind', kind}                 the name is of another kind
-- Cost  O(log n): TIME, HMGET, HSET, ZADD when there is room and nobody waits; O(n) with `each`.
--       Otherwise also the removal of expired holds, and O(log n + 16) for the queue.
local call = redis.call
local k, d, q, l = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local attempt, need, address = ARGV[3], tonumber(ARGV[4]), ARGV[8]
local ids = {attempt}
if ARGV[9] ~= '' then
  for i = 1, need do
    ids[i] = attempt .. ':' .. i - 1
  end
end
local fields = {'k', 's', 'c', 'v', 'n', 'y', 'u', 'e'}
for i = 1, #ids do
  fields[8 + i] = 'h:' .. ids[i]
end
local f = call('HMGET', k, unpack(fields))
if f[1] and f[1] ~= ARGV[2] then
  return {now, 'kind', f[1]}
end
if f[8] and f[8] <= now then
  -- The pool has expired, and void marks may be left.
  pool_delete(k, d, ARGV[2], f[4], 10000)
  f = {f[4] and ARGV[2], false, false, f[4]}
end
if f[4] and call('HGET', k, 'v:' .. attempt) then
  return {now, 'void'}
end

local out, size, ends, latest = tonumber(f[3] or 0), f[2], f[8], f[7]
local span, lasts = (now + ARGV[5]) .. '', ''
if ends and ends < span then
  span = ends
  lasts = ends - now
end
local over, longer, granted = {}, {}, false
for i = 1, #ids do
  local hold = f[8 + i]
  if hold then
    local before = string.sub(hold, 1, 13)
    if before > now then
      granted = true
      if before < span then
        longer[#longer + 1], longer[#longer + 2] = 'h:' .. ids[i], span .. string.sub(hold, 14)
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
  -- Its lease ended before this copy arrived.
  call('HDEL', k, unpack(over))
  call('HSET', k, 'c', out)
end

local room = size - out
local left = room
local member = address ~= '' and address .. ' ' .. ARGV[4]
local waiting = f[5] and f[5] > now
local last, more, freed, head, alive
if waiting or room < need then
  if ARGV[7] ~= '' then
    last = queue_touch(k, q, l, now, member, (now + ARGV[7]) .. '', f[5], '9')
    waiting = true
  end
  out, more, freed = reap(k, d, now, out)
  room = size - out
  if waiting then
    head, alive = queue_head(q, l, now, f[6])
    if not head and alive then
      return {now, 'more'}
    end
  end
  left = room
  if room < need then
    if more then
      return {now, 'more'}
    end
    left = nil
  elseif head and head ~= member then
    left = pool_left(q, l, now, room, size, member, need)
  end
end

if left then
  local write = {'c', out + need}
  if not f[1] then
    write[3], write[4] = 'k', ARGV[2]
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
  local index = {}
  for i = 1, #ids do
    write[#write + 1], write[#write + 2] = 'h:' .. ids[i], span .. ' ' .. each .. ' 0'
    index[2 * i - 1], index[2 * i] = span, ids[i]
  end
  call('HSET', k, unpack(write))
  call('ZADD', d, unpack(index))
  if f[4] then
    marks_sweep(k, f[4], now)
  end
  if ends then
    call('PEXPIRE', d, ends - now)
  elseif f[1] and not f[2] then
    call('PERSIST', k)
  end
  local place = 0
  if waiting then
    if member then
      place = call('ZREM', q, member)
    end
    pool_serve(k, q, l, now, f[6], room - need, size, freed)
  end
  return {now, 'granted', need, micros, lasts, place}
end

local entered = 0
if last then
  entered = queue_enter(k, q, now, micros, member, last, f[6])
  if queue_is_called(f[6], member) then
    -- It was notified and came.
    call('HDEL', k, 'y')
    f[6] = false
  end
  if not head then
    head, alive = member, (now + ARGV[7]) .. ''
  end
end
if waiting and head ~= member and pool_serve(k, q, l, now, f[6], room, size, freed) then
  head, alive = queue_head(q, l, now, f[6])
end
local remaining, called = '', ''
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
    called = tonumber(string.match(head, '^%u+ %S+ (%d+)'))
  else
    local first = call('ZRANGE', d, 0, 0, 'WITHSCORES')[2]
    if first then
      remaining = math.max(first - now, 0)
    end
  end
end
return {now, 'busy', remaining, called, entered}
