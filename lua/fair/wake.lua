-- uses core/queue, core/unconfirmed, core/give
-- The fair lock's way to go on when a name is free. This part follows a line that sets KIND,
-- core/queue.lua, core/unconfirmed.lua and core/give.lua, and precedes the scripts that free names.

-- Gives the name at KEYS[at], which is free, to its first waiter if that has an order, and
-- otherwise notifies that waiter, unless it was notified before. `before` is about the hold that
-- has ended, see core/give.lua. Returns ` granted <attempt> <grant>` if the name was given. O(log
-- waiters) and O(dead, at most 64).
local function wake(at, now, before)
  local key, q, l = KEYS[at], KEYS[at + 1], KEYS[at + 2]
  local called = before.called
  local head, more = queue_head(q, l, now, called)
  if not head then
    if more then
      queue_call_any(key, q, l, now)
    else
      redis.call('HDEL', key, 'n', 'y')
      redis.call('DEL', l)
    end
  elseif not queue_is_called(called, head) then
    local attempt, grant = give(key, q, head, KIND, 'b', before)
    if attempt then
      return ' granted ' .. attempt .. ' ' .. grant
    end
    queue_call(key, now, head)
  end
end

-- Returns ` holds <attempt>` for the reply to a repeated release, or '', see core/give.lua.
-- `holder` holds the name `key` with `token`. O(1): HGET.
local function remind(key, token, holder, asker)
  local attempt = give_reminder(redis.call('HGET', key, 'p'), token, holder, asker)
  return attempt and ' holds ' .. attempt or ''
end

