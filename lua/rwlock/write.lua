-- uses rwlock/write_plain, core/entries, rwlock/fields, rwlock/join
-- entries 16 of 5 keys, 5 arguments, behind 4
-- Takes read-write locks to write, each for itself, also for owners with the upgradable hold. This
-- script follows rwlock/write_plain.lua, core/entries.lua and rwlock/join.lua.
--
-- KEYS  for each entry K, Q, R, L, D, see rwlock/state.lua
-- ARGV  1 act_before  last server time in ms at which this may act, the first of all limits
--       2 client  the part that all owners and attempts have in common
--       3 lease   ms
--       4 ttl     ms, lease + retention of the token
--       5..       for each entry:
--         owner   the new holder, `:<n>`, to be appended to the client
--         attempt `:<n>`, to be appended to the client, never used twice
--         waiter  ms the waiter's client counts as alive if busy, or '' not to wait
--         member  the waiter, `<verb> <channel> <n>`, maybe with an order, see core/give.lua;
--                 or '' for an attempt that ends with a busy answer
--         serial  the upgradable hold that becomes the writer, or '' for any of the owner's or none
-- Reply a text of one line per entry
--       <now> granted <count> <token> <abandoned> <lasts> <token>
--                as for a plain lock; the token names the hold, too
--       <now> busy <remaining> <holder> <called> <entered> <last>
--                as for an upgradable waiter of rwlock/read; entered = 2 if it waits as an upgrade
--                and not in the queue; last = token of the last write, or ''
--       <now> more           too many dead waiters or readers: ask again
--       <now> reader         the owner holds the read lock, and would wait for itself
--       <now> lost           the upgradable hold is over
--       <now> void           this attempt has ended, or counts as ended, see core/attempts.lua
--       <now> kind <kind>    the name is of another kind
--       -<code> <text>       the error of an entry, if there are others
--       {now, 'late'}        `act_before` has passed, for all entries
-- Cost  O(entries · log n): TIME, and for each HMGET, HSET, PEXPIRE, and PTTL if not plain; with
--       readers or waiters + ZADD; with readers + ZCARD, ZRANGEBYSCORE and 2 for each of at most 64
--       due ones; with waiters + queue_head of Q and R, and the removal from Q.
--
-- The first write of each entry is one that a full server refuses. So a call to a full server has
-- written nothing.
local micros, now = began, string.sub(began, 1, 13)
local client, lease, ttl = ARGV[2], ARGV[3], ARGV[4]
local ends = (now + lease) .. ''

-- Lets an attempt of the writer in. The lease never gets shorter. Returns the line.
local function enter_again(s, attempt, queue, member)
  local key = s.key
  local f = call('HMGET', key, 'f', 'a', 'p')
  local held, short, later = s.attempts, '', ends
  if not string.find(held, ' ' .. attempt .. ' ', 1, true) then
    held = held .. attempt .. ' '
  end
  if s.ends > ends or f[1] == s.token then
    if s.ends < ends then
      short = s.ends - now
    end
    later = s.ends
  end
  call('HSET', key, 'h', held, 'u', later, 'v', s.spent)
  if f[3] then
    call('HDEL', key, 'p')
  end
  prolong(key, ttl)
  if s.flag and s.flag > now and member ~= '' then
    call('ZREM', queue, member)
  end
  local abandoned = f[2] == s.token and 1 or 0
  return now .. ' granted ' .. size(held) .. ' ' .. s.token .. ' ' .. abandoned .. ' ' .. short .. ' ' .. s.token
end

-- Lets an owner begin to write. Nobody else holds. Returns the line.
local function begin(s, owner, attempt, queue, member)
  local key, token, abandoned = s.key, micros, 0
  if s.token and token <= s.token then
    token = string.format('%.0f', s.token + 1)
  end
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
  if s.flag and s.flag > now and member ~= '' then
    call('ZREM', queue, member)
  end
  return now .. ' granted 1 ' .. token .. ' ' .. abandoned .. '  ' .. token
end

-- Serves entry n. Returns its line.
local function serve(n)
  local at, own_args = 5 * n - 4, 5 * n
  local key, writers, readers, clients, index = KEYS[at], KEYS[at + 1], KEYS[at + 2], KEYS[at + 3], KEYS[at + 4]
  local owner, attempt = client .. ARGV[own_args], client .. ARGV[own_args + 1]
  local waiter, member, serial = ARGV[own_args + 2], ARGV[own_args + 3], ARGV[own_args + 4]
  local s = look(key, read_fields(key, owner))
  local own_write = s.writer == owner and s.ends > now and s.attempts
  local refusal = refused(s, attempt, ARGV[1], now, own_write, writers, member)
  if refusal then
    return refusal
  end
  local writes = s.writer and s.ends > now
  local waited = s.flag and s.flag > now
  if own_write then
    return enter_again(s, attempt, writers, member)
  end

  local reads = lasts(s.own, now)
  if serial ~= '' and not (reads and string.sub(s.own, 15, 30) == serial) then
    return now .. ' lost'
  elseif reads and string.lower(string.sub(s.own, 49, 49)) ~= 'u' then
    return now .. ' reader'
  end
  local own = reads and 1 or 0
  if waited or s.count > own then
    refusal = full(clients)
    if refusal then
      return refusal
    end
  end
  local longest
  if s.count > own then
    local due
    mend(s, index)
    due, longest = reap(s, index, now, 64)
    if s.reaped then
      call('HSET', key, 'c', counter(s))
    end
    if due == 64 and not longest and s.count > own then
      return now .. ' more'
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
      return now .. ' more'
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
      return now .. ' more'
    end
  end

  if free and (not first or first == member) then
    return begin(s, owner, attempt, writers, member)
  end

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
    tell_readers(key)
  end
  if missing and not announce then
    call_batch_reader(s, readers, clients, now)
  end
  -- A waiter that has just come hears nothing of it: the message is on its way.
  if writes and waiter ~= '' and entered == 0 and called == '' then
    called = give_unheard(call('HGET', key, 'p'), s.token, s.writer, owner)
  end
  refuse(s, member)
  local holder, left = writes and s.writer or '', until_ms > now and until_ms - now or ''
  return now .. ' busy ' .. left .. ' ' .. holder .. ' ' .. called .. ' ' .. entered .. ' ' .. (s.token or '')
end

return entries_serve(#KEYS / 5, serve)
