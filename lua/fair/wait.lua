-- uses core/queue_join, core/unconfirmed
-- The fair lock's way to wait: in order. This part follows core/queue_join.lua and
-- core/unconfirmed.lua, and precedes exclusive/acquire.lua.
--
-- Q, L  of each name, see core/queue.lua; with the orders of core/give.lua

-- Returns the answer to a caller that does not get name i, see `wait`.
local function busy(now, i, look, holder, called, entered, last)
  return now .. ' busy ' .. i .. ' ' .. look .. ' ' .. holder .. ' ' .. called .. ' ' .. entered .. ' ' .. last
end

-- Allows to take the name at KEYS[at], number i of its entry `e`, if it is free and no living
-- waiter came before. Otherwise returns the answer, and queues the waiter if the entry asks for
-- that. The answer is a text, `<now> busy <i> <look> <holder> <called> <entered> <last>`: look = ''
-- to leave re-checks to others; called = n of a waiter of the same client that should ask: the head
-- of the queue if the name is free, or the holder of an unconfirmed hold; entered = 1 if this
-- waiter was not in the queue before; last = token of the last hold. A grant has one item more: 1
-- if this waiter was the first in the queue. A script that finds the name free and the head not
-- notified notifies it. O(log waiters) and O(dead, at most 64), at most 37 commands and 2 for each
-- dead one.
local function wait(at, i, has, e, now, micros)
  local held = has.owner and has.ends > now
  if not held and has.waiters <= now then
    return nil
  end
  local key, q, l = KEYS[at], KEYS[at + 1], KEYS[at + 2]
  local register, member, past = e.register, e.address, has.token or ''
  local called = has.called
  local entered, last, client, alive_until = 0, nil, nil, nil
  if register ~= '' then
    alive_until = (now + register) .. ''
    last, client = queue_touch(key, q, l, now, member, alive_until, has.waiters, held and has.ends)
    has.waiters = last
    if held then
      entered, called = queue_enter(key, q, now, micros, member, last, called)
    end
  else
    -- A full server accepts the removal of dead waiters, and would then accept a grant as well. It
    -- refuses this write, which changes nothing.
    local write = redis.pcall('ZADD', q, 'XX', 0, '')
    if type(write) == 'table' then
      return held and busy(now, i, has.ends - now, has.owner, '', 0, past) or write
    end
  end

  local head, alive = queue_head(q, l, now, called, client, alive_until)
  if held then
    local look = has.ends - now
    if head and member ~= '' and queue_client(head) ~= queue_client(member) then
      local before = queue_before(q, l, queue_client(member), alive, now)
      if not before then
        look = ''
      elseif before > has.ends then
        look = before - now
      end
    end
    -- A waiter that has just come hears nothing of it: the message is on its way.
    local ring = entered == 0 and give_unheard(has.given, has.token, has.owner, e.owner) or ''
    return busy(now, i, look, has.owner, ring, entered, past)
  end

  if not head then
    return alive and now .. ' more'
  elseif head == member then
    has.place = 1
    return nil
  end
  if last then
    entered, called = queue_enter(key, q, now, micros, member, last, called)
  end
  if not queue_is_called(called, head) then
    queue_call(key, now, head)
    if now + GRACE < alive + 0 then
      alive = (now + GRACE) .. ''
    end
  end
  local look, ring = alive - now, ''
  if member ~= '' then
    if queue_client(head) == queue_client(member) then
      ring = string.match(head, '^%u+ %S+ (%d+)')
    else
      local before = queue_before(q, l, queue_client(member), alive, now)
      look = before and before - now or ''
    end
  end
  return busy(now, i, look, '', ring, entered, past)
end

-- Tells whether the waiter `address` has a place. O(1): ZSCORE.
local function waits(queue, address)
  return address ~= '' and redis.call('ZSCORE', queue, address)
end

-- Records that the client of an entry waits for the name at KEYS[at], if the entry registers a
-- waiter. For an entry that `wait` has not seen. O(log clients).
local function stay(at, has, e, now)
  if e.register ~= '' then
    has.waiters = queue_touch(KEYS[at], KEYS[at + 1], KEYS[at + 2], now, e.address, (now + e.register) .. '', has.waiters)
  end
end

