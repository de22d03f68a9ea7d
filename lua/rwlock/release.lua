-- uses rwlock/release_plain, core/entries, rwlock/fields, rwlock/ends, rwlock/go_on
-- entries 16 of 5 keys, 6 arguments, behind 2
-- Ends everything that attempts have on read-write locks, each by itself: the hold, the place among
-- the waiters, late copies. Release, undo of an abandoned acquire, and leave of a waiter are the
-- same operation. This script follows rwlock/release_plain.lua, core/entries.lua, rwlock/ends.lua
-- and rwlock/go_on.lua.
--
-- KEYS  for each entry K, Q, R, L, D, see rwlock/state.lua; all but K are optional (a slot on the
--       move); without them nobody is notified
-- ARGV  1 client  the part that all owners and attempts have in common
--       2 keep    ms the token is kept after the last hold
--       3..       for each entry:
--         owner   `:<n>`, to be appended to the client
--         attempt `:<n>`, to be appended to the client
--         void    last ms at which a request of the acquire may act; '' for a hold that was
--                 delivered after an answer to each request
--         member  the waiter to remove, or ''
--         side    'w' what a writer has, 'r' what a reader has
--         id      token or serial of the hold, or '' where it is not known
-- Reply a text of one line per entry, `<now> <verdict> <left> <idle>`, and behind that, if the lock
--       was given to the next writer, `granted <attempt> <grant>`; to a repeated release
--       `holds <attempt>`; see core/give.lua
--                left = attempts of the owner that still hold on this side; idle = 1 if no hold is
--                known
--       released  this call ended the attempt's hold
--       expired   the same, but the lease had already ended
--       already   the hold had ended cleanly before
--       revoked   the hold had been ended by force
--       taken     a later hold has been granted
--       gone      the hold is unknown
--       kind      the name is of another kind
--       -<code> <text>   the error of an entry, if there are others
-- Cost  O(entries · log n): TIME, and for each HMGET, HDEL, HSET, ZREM, PEXPIRE; with waiters +
--       queue_head of Q and R, ZRANGE, HSET, PUBLISH, ZREM of its own place, or the cost of a
--       grant, see core/give.lua; with a writer among them and other readers + ZRANGEBYSCORE and 2
--       for each of at most 8 due ones; with `void` + HDEL, HSET; an undo of a write HMGET.
--
-- Needs no `act_before`: an attempt's id is never used again, so a late or repeated call ends only
-- what that attempt has. Begins with writes that a full server accepts.
local micros, now = began, string.sub(began, 1, 13)
local client, keep = ARGV[1], ARGV[2]

local function has(attempts, attempt)
  return attempts and string.find(attempts, ' ' .. attempt .. ' ', 1, true)
end

-- Ends what an attempt of a writer has. Returns the verdict, the number of remaining attempts, and
-- 'write' if a write ended, so that others may enter.
local function release_write(s, owner, attempt, id)
  local key, live = s.key, s.writer and s.ends > now
  local verdict = 'gone'
  if s.writer == owner and has(s.attempts, attempt) then
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

-- Ends what an attempt of a reader has. Returns the verdict, the number of remaining attempts, and
-- 'read' if others may enter because of this. `index` is nil in a slot on the move.
local function release_read(s, index, owner, attempt, id)
  local key, hold = s.key, s.own
  local held = hold and string.sub(hold, 50)
  local live = lasts(hold, now)
  if has(held, attempt) then
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

-- Serves entry n. Returns its line.
local function serve(n)
  local at, own = (n - 1) * width + 1, 6 * n - 3
  local key, writers, readers, clients, index = KEYS[at], nil, nil, nil, nil
  if width > 1 then
    writers, readers, clients, index = KEYS[at + 1], KEYS[at + 2], KEYS[at + 3], KEYS[at + 4]
  end
  local owner, attempt = client .. ARGV[own], client .. ARGV[own + 1]
  local void, member, id = ARGV[own + 2], ARGV[own + 3], ARGV[own + 5]
  local s = look(key, read_fields(key, owner))
  if s.kind and s.kind ~= 'rw:1' then
    return now .. ' kind 0 0'
  end

  local verdict, left, changed
  if ARGV[own + 4] == 'w' then
    verdict, left, changed = release_write(s, owner, attempt, id)
  else
    verdict, left, changed = release_read(s, index, owner, attempt, id)
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
      local given, grant = go_on(s, writers, readers, clients, index, now, micros, changed == 'write')
      if given then
        return now .. ' ' .. verdict .. ' ' .. left .. ' 0 granted ' .. given .. ' ' .. grant
      end
      idle = is_idle(s, now)
    end
  end
  if verdict ~= 'released' and s.writer and s.ends > now then
    local holder = give_reminder(call('HGET', key, 'p'), s.token, s.writer, owner)
    if holder then
      return now .. ' ' .. verdict .. ' ' .. left .. ' 0 holds ' .. holder
    end
  end
  return now .. ' ' .. verdict .. ' ' .. left .. ' ' .. (idle and 1 or 0)
end

return entries_serve(#KEYS / width, serve)
