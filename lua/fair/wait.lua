-- uses core/queue_join, core/unconfirmed
-- The fair lock's way to wait: in order. This part follows core/queue_join.lua and
-- core/unconfirmed.lua, and precedes exclusive/acquire.lua.
--
-- Q, L  of each name, see core/queue.lua; with the orders of core/give.lua

-- Returns the answer to a caller that does not get name i, see `wait`.
local function busy(now, i, look, holder, called, entered, last)
  return now .. ' busy ' .. i .. ' ' .. look .. ' ' .. holder .. ' ' .. called .. ' ' .. entered .. ' ' .. last
end

-- Allows to take name i if it is free and no living waiter came before. Otherwise returns the
-- answer, and queues the waiter if the call asks for that. The answer is a text, `<now> busy <i>
-- <look> <holder> <called> <entered> <last>`: look = '' to leave re-checks to others; called = n of
-- a waiter of the same client that should ask: the head of the queue if the name is free, or the
-- holder of an unconfirmed hold; entered = 1 if this waiter was not in the queue before; last =
-- token of the last hold. A grant has one item more: 1 if this waiter was the first in the queue. A
-- script that finds the name free and the head not notified notifies it. O(log waiters) and O(dead,
-- at most 64), at most 36 commands and 2 for each dead one.
local function wait(i, m, f, now, micros)
  local held = f[2] and f[4] > now
  if not held and f[6] <= now then
    return nil
  end
  local key, q, l = KEYS[i], KEYS[m + i], KEYS[2 * m + i]
  local register, member, past = ARGV[6], ARGV[7], f[3] or ''
  local called = f[7]
  local entered, last, client, alive_until = 0, nil, nil, nil
  if register ~= '' then
    alive_until = (now + register) .. ''
    last, client = queue_touch(key, q, l, now, member, alive_until, f[6], held and f[4])
    f[6] = last
    if held then
      entered, called = queue_enter(key, q, now, micros, member, last, called)
    end
  end

  local head, alive = queue_head(q, l, now, called, client, alive_until)
  if held then
    local look = f[4] - now
    if head and member ~= '' and queue_client(head) ~= queue_client(member) then
      local before = queue_before(q, l, queue_client(member), alive, now)
      if not before then
        look = ''
      elseif before > f[4] then
        look = before - now
      end
    end
    -- A waiter that has just come hears nothing of it: the message is on its way.
    local ring = entered == 0 and give_unheard(f[8], f[3], f[2], ARGV[2]) or ''
    return busy(now, i, look, f[2], ring, entered, past)
  end

  if not head then
    return alive and {now, 'more'}
  elseif head == member then
    f.place = 1
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

-- Records that the client of this call waits for name i, if the call registers a waiter. For a call
-- that `wait` has not seen. O(log clients).
local function stay(i, m, f, now)
  if ARGV[6] ~= '' then
    f[6] = queue_touch(KEYS[i], KEYS[m + i], KEYS[2 * m + i], now, ARGV[7], (now + ARGV[6]) .. '', f[6])
  end
end

