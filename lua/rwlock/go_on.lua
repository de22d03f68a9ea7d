-- uses rwlock/state, core/give
-- Who has a read-write lock next. This part follows core/give.lua and rwlock/state.lua.

-- Notifies the upgradable reader that waits to write.
local function tell_upgrader(s)
  local verb, channel, n = string.match(s.upgrader, '^%d+ (%u+) (%S+) (%d+)')
  publish(verb, channel, s.key .. ' ' .. n)
end

-- Gives the lock to the first in Q, which may enter, if it is a writer with an order that was not
-- notified before. Returns attempt and grant for the reply, or nil.
local function give_first(s, writers, now, micros, first)
  -- Dead readers may be counted still, and those who wait behind a dead writer may not be called.
  local settled = not s.writer or s.batch and string.sub(s.batch, 1, 16) == s.token
  if s.count > 0 or not settled or queue_is_called(s.called, first) then
    return nil
  end
  return give(s.key, writers, first, 'rw:1', 'a', {
    now = now, micros = micros, token = s.token, clean = not s.writer,
    abandoned = s.writer and s.attempts ~= ' ' and 1 or 0, called = s.called, client = s.client,
    spent = s.spent, written = true,
  })
end

-- Gives the lock to the next writer, or notifies all waiters that may enter from now on. `ended`: a
-- write has ended. Without `micros` it gives nothing. With `s.client` the reply tells that client
-- of a grant to one of its own waiters, and no message does. A write that a full server accepts
-- precedes it. Returns attempt and grant for the reply, or nil. O(log n) and O(dead waiters, at
-- most 128), and with a waiting writer O(due readers, at most 8).
local function go_on(s, writers, readers, clients, index, now, micros, ended)
  if s.writer and s.ends > now then
    return
  end
  if upgrading_until(s, now) then
    if readers_are_out(s, index, now, 1) and not batch_reader(s, readers, queue_head(readers, clients, now), now) then
      tell_upgrader(s)
    end
    return
  end
  local stale = s.upgrader and string.sub(s.upgrader, 1, 13) > now
  if stale then
    -- Its hold is over: after its next look it waits in Q, or not at all.
    call('HDEL', s.key, 'x')
  end
  local first, _, many = queue_head(writers, clients, now, s.called)
  strike_out_missing(s, readers, now)
  local reader, _, more = queue_head(readers, clients, now)
  local writes = first and not is_upgradable(first)
  local announce = false
  if ended and s.writer then
    announce = settle_death(s, readers, clients, now)
  end
  -- Also after a death that was handled before: a place in Q may have gone just now.
  if not announce and reader and (ended and not s.writer or not writes) then
    local newest = call('ZRANGE', readers, 0, 0, 'REV', 'WITHSCORES')[2]
    if not batch_open(s, now) or string.sub(s.batch, 32) < newest then
      open_batch(s, readers, now)
      announce = true
    end
  end
  local attempt, grant
  if first and first_may_enter(s, readers, index, now, first, reader) then
    if micros and writes and not more then
      attempt, grant = give_first(s, writers, now, micros, first)
    end
    if not attempt then
      call_once(s, now, first)
    end
  end
  if announce then
    tell_readers(s.key)
  end
  if stale then
    tell_upgrader(s)
  end
  if many or more then
    queue_call_any(s.key, many and writers or readers, clients, now)
  end
  return attempt, grant
end

