-- uses rwlock/release_plain, rwlock/ends, rwlock/go_on
-- Ends everything that one attempt has on a read-write lock: its hold, its place among the waiters,
-- its late copies. Release, undo of an abandoned acquire, and leave of a waiter are the same
-- operation. This script follows rwlock/release_plain.lua, rwlock/ends.lua and rwlock/go_on.lua.
--
-- KEYS  1 K, 2 Q, 3 R, 4 L, 5 D, see rwlock/state.lua; 2 to 5 optional (a slot on the move);
--       without them nobody is notified
-- ARGV  1 owner   `<client>:<n>`
--       2 attempt `<client>:<n>`
--       3 void    last ms at which a request of the acquire may act; '' for a hold that was
--                 delivered after an answer to each request
--       4 keep    ms the token is kept after the last hold
--       5 member  the waiter to remove, or ''
--       6 side    'w' what a writer has, 'r' what a reader has
--       7 id      token or serial of the hold, or '' where it is not known
--       8 verb and 9 channel of the message to all waiting readers
-- Reply {now, verdict, left, idle}, and if the lock was given to the next writer {…, 'granted',
--       attempt, grant}; to a repeated release {…, 'holds', attempt}; see core/give.lua
--                left = attempts of the owner that still hold on this side; idle = 1 if no hold is
--                known. In the plain case as a text
--       released  this call ended the attempt's hold
--       expired   the same, but the lease had already ended
--       already   the hold had ended cleanly before
--       revoked   the hold had been ended by force
--       taken     a later hold has been granted
--       gone      the hold is unknown
--       kind      the name is of another kind
-- Cost  O(log n): TIME, HMGET, HDEL, HSET, ZREM, PEXPIRE; with waiters + queue_head of Q and R,
--       ZRANGE, HSET, PUBLISH, ZREM of its own place, or the cost of a grant, see core/give.lua;
--       with a writer among them and other readers + ZRANGEBYSCORE and 2 for each of at most 8 due
--       ones; with `void` + HDEL, HSET; an undo of a write HMGET.
--
-- Needs no `act_before`: an attempt's id is never used again, so a late or repeated call ends only
-- what that attempt has. Begins with writes that a full server accepts.
local micros, now = began, string.sub(began, 1, 13)
local key, writers, readers, clients, index = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local owner, attempt, void, keep, member, id = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[7]

local s = look(key, lock)
if s.kind and s.kind ~= 'rw:1' then
  return {now, 'kind', 0, 0}
end

local function has(attempts)
  return attempts and string.find(attempts, ' ' .. attempt .. ' ', 1, true)
end

-- Returns the verdict, the number of remaining attempts, and whether others may enter because of
-- this: 'write' if a write ended.
local function release_write()
  local live = s.writer and s.ends > now
  local verdict = 'gone'
  if s.writer == owner and has(s.attempts) then
    local token = s.token
    verdict = live and 'released' or call('HGET', key, 'f') == token and 'revoked' or 'expired'
    local ended
    local died = false
    if id == '' and s.attempts == ' ' .. attempt .. ' ' then
      -- An undo passes on that the holder before has died. a is the token of a hold after such a
      -- holder, p says so of a hold that is not confirmed.
      local before = call('HMGET', key, 'p', 'a')
      local unheard = before[1] and string.sub(before[1], 1, 18) == token .. ' 1'
      if unheard or before[2] == token then
        died = (unheard or live) and ' - ' or ' = '
      end
    end
    if died then
      end_unheard(s, died)
      ended = live
    else
      ended = end_write(s, attempt, now)
    end
    if id ~= '' and id < token then
      verdict = 'taken'
    end
    return verdict, live and not ended and size(s.attempts) or 0, (ended or not live) and 'write'
  elseif s.token and id ~= '' then
    -- z last token that was released, f token that was forced
    local z = call('HMGET', key, 'z', 'f')
    if s.token == id and (live or not s.writer) or z[1] == id then
      verdict = 'already'
    elseif z[2] == id then
      verdict = 'revoked'
    elseif s.token == id then
      verdict = s.attempts == ' - ' and 'already' or 'expired'
    elseif id < s.token then
      verdict = 'taken'
    end
  end
  return verdict, live and s.writer == owner and size(s.attempts) or 0
end

local function release_read()
  local hold = s.own
  local held = hold and string.sub(hold, 50)
  local live = lasts(hold, now)
  if has(held) then
    local serial, kind = string.sub(hold, 15, 30), string.sub(hold, 49, 49)
    local from, to = string.find(held, ' ' .. attempt .. ' ', 1, true)
    held = string.sub(held, 1, from) .. string.sub(held, to + 1)
    local verdict = live and 'released' or kind == 'f' and 'revoked' or 'expired'
    if id ~= '' and id < serial then
      verdict = 'taken'
    end
    if held ~= ' ' then
      call('HDEL', key, '')
      call('HSET', key, 'r' .. owner, string.sub(hold, 1, 49) .. held)
      return verdict, live and size(held) or 0
    end
    call('HDEL', key, 'r' .. owner)
    if kind ~= 'f' then
      s.count = s.count - 1
    end
    if live then
      s.released = serial
    end
    call('HSET', key, 'c', counter(s))
    if index then
      call('ZREM', index, owner)
    end
    -- Dead readers may still be counted.
    local last = s.count == 0 or s.upgrader or index and s.flag and s.flag > now and readers_are_out(s, index, now, 0)
    if s.upgradable == owner then
      call('HDEL', key, 'g')
      s.upgradable = false
      last = true
    end
    return verdict, 0, last and 'read'
  end
  local left = live and size(held) or 0
  if id == '' then
    return 'gone', left
  elseif hold and string.sub(hold, 15, 30) == id then
    return live and 'already' or string.sub(hold, 49, 49) == 'f' and 'revoked' or 'expired', left
  elseif s.released == id then
    return 'already', left
  elseif s.token and s.token > id then
    return 'taken', left
  end
  return 'gone', left
end

local verdict, left, changed
if ARGV[6] == 'w' then
  verdict, left, changed = release_write()
else
  verdict, left, changed = release_read()
end

if void ~= '' and void >= now then
  mark_void(s, attempt, void, now)
  prolong(key, keep)
end

local waited = s.flag and s.flag > now
local idle = is_idle(s, now)
if idle and not waited then
  -- The rest is remembered for a limited time.
  call('PEXPIRE', key, keep)
end
if waited and writers then
  if member ~= '' then
    if s.upgrader and string.sub(s.upgrader, 15) == member then
      call('HDEL', key, 'x')
      s.upgrader = false
      changed = changed or 'place'
    end
    if call('ZREM', writers, member) + call('ZREM', readers, member) > 0 then
      changed = changed or 'place'
    end
  end
  if changed then
    s.client = string.match(owner, '^[^:]*')
    local given, grant =
      go_on(s, writers, readers, clients, index, now, micros, changed == 'write', ARGV[8], ARGV[9])
    if given then
      return {now, verdict, left, 0, 'granted', given, grant}
    end
    idle = is_idle(s, now)
  end
end
if verdict ~= 'released' and s.writer and s.ends > now then
  local holder = give_reminder(call('HGET', key, 'p'), s.token, s.writer, owner)
  if holder then
    return {now, verdict, left, 0, 'holds', holder}
  end
end
return {now, verdict, left, idle and 1 or 0}
