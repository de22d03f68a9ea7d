-- uses rwlock/write_plain, rwlock/join
-- Takes a read-write lock to write, also for an owner with the upgradable hold. This script follows
-- rwlock/write_plain.lua and rwlock/join.lua.
--
-- KEYS  1 K, 2 Q, 3 R, 4 L, 5 D, see rwlock/state.lua
-- ARGV  1 act_before  last server time in ms at which this may act
--       2 owner   the new holder, `<client>:<n>`
--       3 attempt `<client>:<n>`, never used twice
--       4 lease   ms
--       5 ttl     ms, lease + retention of the token
--       6 waiter  ms the waiter's client counts as alive if busy, or '' not to wait
--       7 member  the waiter, `<verb> <channel> <n>`, maybe with an order, see core/give.lua;
--         or '' for an attempt that ends with a busy answer
--       8 serial  the upgradable hold that becomes the writer, or '' for any of the owner's or none
--       9 verb and 10 channel of the message to all waiting readers
-- Reply {now, 'granted', count, token, abandoned, lasts, token}
--                as for a plain lock; the token names the hold, too. In the plain case as a text
--       {now, 'busy', remaining, holder, called, entered, last}
--                as for an upgradable waiter of rwlock/read; entered = 2 if it waits as an upgrade
--                and not in the queue; last = token of the last write, or ''
--       {now, 'more'}         too many dead waiters or readers: ask again
--       {now, 'reader'}       the owner holds the read lock, and would wait for itself
--       {now, 'lost'}         the upgradable hold is over
--       {now, 'late'}, {now, 'void'}, {now, 'kind', kind}
-- Cost  O(log n): TIME, HMGET, HSET, PEXPIRE, and PTTL if not plain; with readers + ZCARD,
--       ZRANGEBYSCORE and 2 for each of at most 64 due ones; with waiters + queue_head of Q and R,
--       and the removal from Q.
local key, writers, readers, clients, index = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local owner, attempt, lease, ttl, waiter, member, serial = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]

local micros, now = began, string.sub(began, 1, 13)
local s = look(key, lock)
local own_write = s.writer == owner and s.ends > now and s.attempts
local refusal = refused(s, attempt, ARGV[1], now, own_write, writers, member)
if refusal then
  return refusal
end
local ends = (now + lease) .. ''
local writes = s.writer and s.ends > now
local waited = s.flag and s.flag > now

if writes and s.writer == owner then
  -- Re-entry: the attempt joins the set; the lease never gets shorter.
  local f = call('HMGET', key, 'f', 'a', 'p')
  local held, short = s.attempts, ''
  if f[3] then
    call('HDEL', key, 'p')
  end
  if not string.find(held, ' ' .. attempt .. ' ', 1, true) then
    held = held .. attempt .. ' '
  end
  if s.ends > ends or f[1] == s.token then
    if s.ends < ends then
      short = s.ends - now
    end
    ends = s.ends
  end
  call('HSET', key, 'h', held, 'u', ends, 'v', s.spent)
  prolong(key, ttl)
  if waited and member ~= '' then
    call('ZREM', writers, member)
  end
  return {now, 'granted', size(held), s.token, f[2] == s.token and 1 or 0, short, s.token}
end

local reads = lasts(s.own, now)
if serial ~= '' and not (reads and string.sub(s.own, 15, 30) == serial) then
  return {now, 'lost'}
elseif reads and string.lower(string.sub(s.own, 49, 49)) ~= 'u' then
  return {now, 'reader'}
end
local own = reads and 1 or 0
local longest
if s.count > own then
  local due
  mend(s, index)
  due, longest = reap(s, index, now, 64)
  if s.reaped then
    call('HSET', key, 'c', counter(s))
  end
  if due == 64 and not longest and s.count > own then
    return {now, 'more'}
  end
end

-- The earliest time at which it may enter, and whose turn it is.
local until_ms, free, announce, missing, called = '', false, false, false, ''
local first, first_until, many
if waited then
  announce = settle_death(s, readers, clients, now)
end
if writes then
  until_ms = s.ends
elseif s.count > own then
  until_ms = call('ZRANGE', index, 0, 0, 'REV', 'WITHSCORES')[2] or ''
  if longest and until_ms < longest then
    until_ms = longest
  end
elseif waited then
  local reader, _, more = queue_head(readers, clients, now)
  if more then
    return {now, 'more'}
  elseif batch_reader(s, readers, reader, now) then
    until_ms = string.sub(s.batch, 18, 30)
    missing = waiter ~= ''
  else
    free = true
  end
else
  free = true
end
if waited and own == 0 then
  first, first_until, many = queue_head(writers, clients, now, s.called)
  if many then
    return {now, 'more'}
  end
end

if not free or first and first ~= member then
  local entered = 0
  if waiter ~= '' then
    if own == 1 then
      entered = 2
      local last = (now + waiter) .. ''
      call('HSET', key, 'x', last .. ' ' .. member, 'n', s.flag and s.flag > last and s.flag or last)
      -- After the end of its hold it is no upgrade any more, and is not notified.
      local held = string.sub(s.own, 1, 13)
      if until_ms == '' or held < until_ms then
        until_ms = held
      end
    else
      entered = wait_in(s, writers, readers, clients, now, micros, member, waiter, s.called)
      if s.upgrader and string.sub(s.upgrader, 15) == member then
        call('HDEL', key, 'x')
      end
    end
  end
  if first and first ~= member then
    -- Another waiter is first and re-checks when it may enter. The first of another client
    -- re-checks later, in case that one does not.
    until_ms = ''
    if queue_client(first) == queue_client(member) then
      if queue_is_called(s.called, first) then
        called = string.match(first, '^%S+ %S+ (%d+)')
      end
    elseif waiter ~= '' then
      until_ms = queue_before(writers, clients, queue_client(member), first_until) or ''
    end
    -- The one before it may have died, and then it was not notified.
    if not writes then
      call_first(s, readers, index, now, first, queue_head(readers, clients, now))
    end
  end
  if announce then
    publish(ARGV[9], ARGV[10], '')
  end
  if missing and not announce then
    call_batch_reader(s, readers, clients, now)
  end
  -- A waiter that has just come hears nothing of it: the message is on its way.
  if writes and waiter ~= '' and entered == 0 and called == '' then
    called = give_unheard(call('HGET', key, 'p'), s.token, s.writer, owner)
  end
  refuse(s, member)
  return {now, 'busy', until_ms > now and until_ms - now or '', writes and s.writer or '', called, entered, s.token or ''}
end

local token = micros
if s.token and token <= s.token then
  token = string.format('%.0f', s.token + 1)
end
local abandoned = 0
if s.writer then
  -- A release after the end has emptied the set.
  if s.attempts ~= ' ' then
    abandoned = 1
    -- A copy of this attempt gets the same answer.
    call('HSET', key, 'a', token)
  end
  call('HSET', key, 'o', owner, 'h', ' ' .. attempt .. ' ', 't', token, 'u', ends, 'v', s.spent)
elseif s.token then
  -- A token without an owner was released; z keeps it for a repeated release.
  call('HSET', key, 'o', owner, 'h', ' ' .. attempt .. ' ', 't', token, 'u', ends, 'v', s.spent, 'z', s.token)
else
  call('HSET', key, 'k', 'rw:1', 'o', owner, 'h', ' ' .. attempt .. ' ', 't', token, 'u', ends, 'v', s.spent)
end
prolong(key, ttl)
if s.upgrader then
  call('HDEL', key, 'x')
end
-- A waiting upgrade may have queued as a writer, before its owner could read.
if waited and member ~= '' then
  call('ZREM', writers, member)
end
return {now, 'granted', 1, token, abandoned, '', token}
