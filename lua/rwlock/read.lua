-- uses rwlock/read_plain, core/entries, rwlock/fields, rwlock/join, rwlock/let_read, rwlock/go_on
-- entries 16 of 5 keys, 5 arguments, behind 4
-- Takes read-write locks to read, or to read with the right to become the writer, each for itself.
-- This script follows rwlock/read_plain.lua, core/entries.lua, core/queue_join.lua, and the other
-- parts of the lock.
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
--         member  the waiter, `<verb> <channel> <n>`, followed by ` u` if upgradable; or
--                 '' for an attempt that ends with a busy answer
--         kind    'r', or 'u' for upgradable
-- Reply a text of one line per entry
--       <now> granted <count> <token> <abandoned> <lasts> <serial>
--                token of the last write; abandoned = 1 if its holder never released; lasts = ms
--                from now if that is less than requested (renewal is forbidden), else ''; serial
--                names the read hold
--       <now> busy <remaining> <holder> <called> <entered>
--                remaining = ms until the next re-check, or ''; holder = the writer, or ''; called
--                = n of a waiter of this client that may enter, or ''; entered = 1 if the waiter
--                was not in the queue. To an upgradable waiter called may also be the holder of a
--                hold that is not confirmed, see core/give.lua
--       <now> more           too many dead waiters: ask again
--       <now> reader         the owner holds the read lock and asks for an upgradable one
--       <now> void           this attempt has ended, or counts as ended, see core/attempts.lua
--       <now> kind <kind>    the name is of another kind
--       -<code> <text>       the error of an entry, if there are others
--       {now, 'late'}        `act_before` has passed, for all entries
-- Cost  O(entries · log n): TIME, and for each HMGET, HSET, ZADD, and per key PEXPIRE, and PTTL if
--       not plain; with other readers + ZRANGEBYSCORE, 3 for each of at most two due ones; with
--       waiters + ZADD, queue_head of Q and R, and the removal from the queue.
--
-- The first write of each entry is one that a full server refuses. So a call to a full server has
-- written nothing.
local micros, now = began, string.sub(began, 1, 13)
local client, lease, ttl = ARGV[2], ARGV[3], ARGV[4]

-- Serves entry n. Returns its line.
local function serve(n)
  local at, own = 5 * n - 4, 5 * n
  local key, writers, readers, clients, index = KEYS[at], KEYS[at + 1], KEYS[at + 2], KEYS[at + 3], KEYS[at + 4]
  local owner, attempt = client .. ARGV[own], client .. ARGV[own + 1]
  local waiter, member, kind = ARGV[own + 2], ARGV[own + 3], ARGV[own + 4]
  local s = look(key, read_fields(key, owner))
  local held = lasts(s.own, now) and string.sub(s.own, 50)
  local refusal = refused(s, attempt, ARGV[1], now, held, kind == 'u' and writers or readers, member)
  if refusal then
    return refusal
  end
  local writes = s.writer and s.ends > now
  local holds = lasts(s.own, now)
  if holds and kind == 'u' and string.lower(string.sub(s.own, 49, 49)) ~= 'u' then
    return now .. ' reader'
  end

  -- The obstacle, and the earliest time of its end.
  local way, until_ms, called = '', '', ''
  local waited = s.flag and s.flag > now
  local free = holds or writes and s.writer == owner
  local announce, in_batch = false, false
  if not free then
    if waited then
      refusal = full(clients)
      if refusal then
        return refusal
      end
      announce = settle_death(s, readers, clients, now)
    end
    local upgrading = upgrading_until(s, now)
    local first, first_until, many
    if waited then
      first, first_until, many = queue_head(writers, clients, now, s.called)
      if many then
        return now .. ' more'
      end
    end
    if writes then
      way, until_ms = s.writer, s.ends
    elseif kind == 'u' then
      local taken = upgradable_taken(s, now)
      if taken then
        until_ms = string.sub(call('HGET', key, 'r' .. s.upgradable), 1, 13)
      elseif first and first ~= member then
        until_ms = first_until
      else
        free = true
      end
    else
      local ticket = waited and member ~= '' and call('ZSCORE', readers, member)
      in_batch = ticket and batch_open(s, now) and ticket <= string.sub(s.batch, 32)
      if in_batch then
        free = true
      elseif upgrading then
        until_ms = upgrading
      elseif first and not is_upgradable(first) then
        until_ms = first_until
      else
        free = true
      end
    end

    if not free then
      local entered = 0
      if waiter ~= '' then
        local queue, other, summoned, ticket = readers, writers, false, micros
        if kind == 'u' then
          queue, other, summoned = writers, readers, s.called
        else
          -- A reader that did not come in time gets a new place.
          if waited then
            strike_out_missing(s, readers, now)
          end
          if s.batch and ticket <= string.sub(s.batch, 32) then
            -- Tickets may be ahead of the clock: it joins behind the batch.
            ticket = string.format('%.0f', string.sub(s.batch, 32) + 1)
          end
        end
        entered = wait_in(s, queue, other, clients, now, ticket, member, waiter, summoned)
        -- The first of its queue re-checks when it may be able to enter; the first of another
        -- client does so later, in case that one does not.
        local head, alive = queue_head(queue, clients, now, summoned)
        if head and head ~= member then
          local of = queue_client(member)
          until_ms = queue_client(head) ~= of and queue_before(queue, clients, of, alive) or ''
        end
      end
      if until_ms ~= '' then
        until_ms = until_ms - now
      end
      if first and first ~= member then
        if queue_is_called(s.called, first) and queue_client(first) == queue_client(member) then
          called = string.match(first, '^%S+ %S+ (%d+)')
        end
        if not (writes or upgrading) then
          -- The one before it may have died, and then it was not notified.
          call_first(s, readers, index, now, first, queue_head(readers, clients, now))
        end
      end
      if announce then
        tell_readers(key)
      end
      -- A writer may stand behind this waiter in the line of its client, and so ask nothing by
      -- itself. A waiter that has just come hears nothing of it: the message is on its way.
      if writes and kind == 'u' and waiter ~= '' and entered == 0 and called == '' then
        called = give_unheard(call('HGET', key, 'p'), s.token, s.writer, owner)
      end
      refuse(s, member)
      return now .. ' busy ' .. until_ms .. ' ' .. way .. ' ' .. called .. ' ' .. entered
    end
  end

  local count, token, abandoned, short, serial = let_read(s, index, now, micros, owner, attempt, lease, ttl, kind)
  if waited then
    if member ~= '' then
      call('ZREM', kind == 'u' and writers or readers, member)
    end
    if announce then
      tell_readers(key)
    elseif not (holds or writes or in_batch) then
      -- A reader that entered by a re-check opens the batch for the others.
      go_on(s, writers, readers, clients, index, now, nil, false)
    end
  end
  return now .. ' granted ' .. count .. ' ' .. token .. ' ' .. abandoned .. ' ' .. short .. ' ' .. serial
end

return entries_serve(#KEYS / 5, serve)
