-- uses rwlock/state, core/queue_join
-- How a waiter joins a queue of a read-write lock. This part follows core/queue_join.lua and
-- rwlock/state.lua.

-- Returns the error of a server that is full. It accepts the removal of what is dead, and would
-- then accept a grant as well, also to another entry. It refuses this write, which changes nothing.
local function full(clients)
  local write = redis.pcall('ZADD', clients, 'XX', 0, '')
  return type(write) == 'table' and write
end

-- Adds a waiter to `queue`, and records its client as alive. `other` is the other one of Q and R.
-- Returns 1 if it was not there.
local function wait_in(s, queue, other, clients, now, micros, member, waiter, called)
  local last = queue_touch(s.key, queue, clients, now, member, (now + waiter) .. '', s.flag, nil, other)
  local entered = queue_enter(s.key, queue, now, micros, member, last, called)
  if entered == 0 and queue_is_called(called, member) then
    -- It came.
    call('HDEL', s.key, 'y')
  end
  return entered
end

-- Notifies the first in Q if nobody writes or waits to upgrade, and it may enter. `reader` is the
-- first in R.
local function call_first(s, readers, index, now, first, reader)
  if first_may_enter(s, readers, index, now, first, reader) then
    call_once(s, now, first)
  end
end

