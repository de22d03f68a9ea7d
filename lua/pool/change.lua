-- uses pool/shared, core/act_before
-- Changes the number of permits, or deletes the pool. Each operation counts once, however often it
-- is sent. This script follows core/act_before.lua as well.
--
-- KEYS  1 K, 2 D, 3 Q, 4 L; see shared.lua
--       5 O the operations that have run: hash, id -> `<verdict> <number>`; 6 P sorted set, id ->
--         ms until which it is remembered
-- ARGV  1 act_before  last server time in ms at which this may act
--       2 kind    of the pool
--       3 op      `<client>:<n>`, never used twice
--       4 keep    ms an operation is remembered; the same for all
--       5 verb    'set' the size; 'try', set it if it is not set; 'add' to it; 'drain', remove the
--                 available permits; 'delete'
--       6 number  permits, for 'add' perhaps negative
--       7 ttl     ms from now after which the pool expires, not before the last lease; '0' never;
--                 '' unchanged
-- Reply {now, verdict, number}
--       done    number = the size after it; for 'drain' the removed permits
--       set     'try' found it set
--       unset   nobody has set it
--       below, above   the size would be less than 0, or more than 4294967295; number = the size
--       {now, 'more'}         too much to remove in one call: ask again at once
--       {now, 'late'}         `act_before` has passed
--       {now, 'kind', kind}   the name is of another kind
-- Cost  O(log n): TIME, HMGET, HGET, HSET × 2, ZADD, PEXPIRE × 2, ZRANGEBYSCORE and the removal of
--       at most 32 old operations; 'drain' + expired holds; a new end + PEXPIRE × 2; a smaller size
--       + a look at 256 waiters; with waiters + O(log n + 256) and a PUBLISH for each notified one,
--       257 at most.
--
-- A refusal is remembered too: a late copy must not make the change after its caller was told of
-- the refusal. Begins with HSET, which a full server refuses.
local call = redis.call
local k, d, q, l, ops, order = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local op, keep, verb, ttl = ARGV[3], ARGV[4], ARGV[5], ARGV[7]
local f = call('HMGET', k, 'k', 's', 'c', 'n', 'y', 'u', 'e', 'v', 'r')
if f[1] and f[1] ~= ARGV[2] then
  return {now, 'kind', f[1]}
end
if f[7] and f[7] <= now then
  -- The pool has expired. What refuses attempts is left.
  pool_delete(k, d, ARGV[2], f[8], 10000)
  f = {false, false, false, false, false, false, false, f[8]}
end
local known = call('HGET', ops, op)
if known then
  local verdict, number = string.match(known, '(%a+) (%d+)')
  return {now, verdict, tonumber(number)}
end

local size, out = tonumber(f[2] or 0), tonumber(f[3] or 0)
local verdict, number, after = 'done', 0, tonumber(ARGV[6])
if verb == 'try' and f[2] then
  verdict, number = 'set', size
elseif verb == 'set' or verb == 'try' then
  number = after
elseif not f[2] then
  verdict = 'unset'
elseif verb == 'add' then
  after = size + after
  number = after
  if after < 0 then
    verdict, number = 'below', size
  elseif after > 4294967295 then
    verdict, number = 'above', size
  end
elseif verb == 'drain' then
  local more
  out, more = reap(k, d, now, out)
  if more then
    return {now, 'more'}
  end
  number = math.max(size - out, 0)
  after = size - number
end

call('HSET', ops, op, verdict .. ' ' .. number)
call('ZADD', order, now + keep, op)
call('PEXPIRE', ops, keep)
call('PEXPIRE', order, keep)
local old = call('ZRANGEBYSCORE', order, '-inf', now, 'LIMIT', 0, 32)
if old[1] then
  call('HDEL', ops, unpack(old))
  call('ZREM', order, unpack(old))
end
if verdict ~= 'done' then
  return {now, verdict, number}
end

if verb == 'delete' then
  pool_delete(k, d, ARGV[2], f[8], keep)
  if f[4] then
    -- Each client makes its own look.
    local rung = {}
    local members = call('ZRANGE', q, 0, 255)
    for i = 1, #members do
      local how, channel = string.match(members[i], '^(%u+) (%S+)')
      if how ~= 'NONE' and not rung[channel] then
        rung[channel] = true
        publish(how, channel, k)
      end
    end
  end
  return {now, verdict, number}
end

call('HSET', k, 'k', ARGV[2], 's', after, 'c', out)
if ttl ~= '' and ttl ~= '0' then
  local ends = (now + ttl) .. ''
  if f[6] and f[6] > ends then
    ends = f[6]
  end
  call('HSET', k, 'e', ends)
  call('PEXPIRE', k, ends - now)
  call('PEXPIRE', d, ends - now)
elseif ttl == '0' or not f[2] then
  call('HDEL', k, 'e')
  call('PERSIST', k)
  call('PERSIST', d)
end
if f[4] then
  if after < size then
    -- A waiter that needs more than the size gets its error.
    local members = call('ZRANGE', q, 0, 255)
    for i = 1, #members do
      if pool_need(members[i]) > after then
        pool_ring(k, members[i])
      end
    end
  end
  local rung = f[9]
  if rung and after < size then
    -- Who was notified may find too few.
    call('HDEL', k, 'r')
    rung = false
  end
  pool_serve(k, d, q, l, now, f[5], rung, after - out, after, {})
end
return {now, verdict, number}
