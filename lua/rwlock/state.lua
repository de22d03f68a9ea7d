-- uses core/queue, core/unconfirmed, core/attempts
-- A read-write lock on the server, and the functions that most of its scripts share. This part
-- follows core/queue.lua, precedes each script, and does nothing by itself.
--
-- K  hash, the authority
--      k   kind, `rw:1`
--    the writer, as in a plain lock
--      o   owner, h its attempts ` a b `, u until (ms), t token; without o, t is the last token
--      z   last token that was released, f token that was forced, a token after a writer that died
--      p   the hold was given by a release, and is not confirmed; see core/give.lua
--    the readers
--      r<owner>  one read hold: `<until ms> <serial> <token> <kind>` and its attempts ` a b `, all
--                at fixed places up to the attempts. The token is the last write's when its owner
--                last came in. Kinds: r read, u upgradable; R and U the same, not to be renewed any
--                more; f ended by force (not counted)
--      c   `<last serial> <last serial that was released> <count>`: read holds that are not known
--          to be over
--      g   owner of the upgradable hold; stale if that hold is gone
--    who waits
--      n, y  see core/queue.lua; y is about Q
--      b   `<token> <until ms> <ticket>`, the batch of readers that go before the next writer:
--          tickets up to this one, until then
--      x   `<until ms> <member>`, the upgradable reader that waits to become the writer
--    v  attempts that may not act, see core/attempts.lua
-- Q  sorted set, waiting writers (a member may end with an order, see core/give.lua) and upgradable
--    readers (member ends in ` u`), in order; see core/queue.lua
-- R  sorted set, waiting readers, in order; the channel on which all of them are told to ask is
--    named like a part `b` of K
-- L  sorted set, clients of both; see core/queue.lua
-- D  sorted set, owner of a read hold -> ms until which it lasts at least; an index
--
-- A renewal moves a reader's end in K alone. A script that has to know the remaining readers
-- examines the first members of D, and moves them up or removes them. Who may enter:
--   a reader: nobody writes, no upgradable reader waits to write, and the first in Q is no writer;
--     or the reader is in the batch b
--   an upgradable reader: nobody writes, no other upgradable hold, and it is first in Q or Q is
--     empty
--   a writer: nobody writes or reads, nobody of the batch b waits, and it is first in Q or Q is
--     empty
--   an upgrade: nobody else holds, and nobody of the batch b waits
--   an owner that holds already
-- Serials have 16 digits like tokens, come from the same clock and never pass through `..` as
-- numbers.
local call = redis.call

-- A serial or token below all others.
local NONE = '0000000000000000'

-- An end in the past by any clock.
local OVER = '0000000000000'

-- Returns the state of K as `owner` sees it, from its fields as read_fields returns them.
local function look(key, f)
  local c = f[8] or (NONE .. ' ' .. NONE .. ' 0')
  return {
    key = key, kind = f[1], writer = f[2], ends = f[3], token = f[4], attempts = f[5], spent = f[6], flag = f[7], batch = f[9], upgradable = f[10],
    upgrader = f[11], called = f[12], own = f[13], last = string.sub(c, 1, 16), released = string.sub(c, 18, 33), count = tonumber(string.sub(c, 35)),
  }
end

local function counter(s)
  return s.last .. ' ' .. s.released .. ' ' .. s.count
end

-- Returns true if a read hold lasts.
local function lasts(hold, now)
  return hold and string.sub(hold, 1, 13) > now and string.sub(hold, 49, 49) ~= 'f'
end

-- Returns true if no hold is known.
local function is_idle(s, now)
  return s.count == 0 and not (s.writer and s.ends > now)
end

-- Returns the number of attempts of a list.
local function size(attempts)
  local _, spaces = string.gsub(attempts, ' ', ' ')
  return spaces - 1
end

-- Returns the reply about a name of another kind, else nil.
local function alien(s, now)
  if s.kind and s.kind ~= 'rw:1' then
    return now .. ' kind ' .. string.gsub(s.kind, '[%c ]', '?')
  end
  return nil
end

-- Returns the reply that refuses an acquisition: the name is of another kind, or the attempt may
-- not act. Returns nil if neither holds. `held` are the attempts that the owner has on this side;
-- `member` is the waiter in `queue`, or ''.
local function refused(s, attempt, limit, now, held, queue, member)
  local other = alien(s, now)
  if other then
    return other
  end
  local late
  s.spent, late = spend(s.spent, attempt, limit, now)
  if late and not (held and string.find(held, ' ' .. attempt .. ' ', 1, true)) then
    local upgrades = s.upgrader and string.sub(s.upgrader, 15) == member
    if member == '' or not upgrades and not call('ZSCORE', queue, member) then
      return now .. ' void'
    end
  end
  return nil
end

-- Records an attempt that ends with a busy answer: nobody undoes it. Where the server takes no
-- writes, no copy can act either.
local function refuse(s, member)
  if member == '' then
    redis.pcall('HSET', s.key, 'v', s.spent)
  end
end

-- Prolongs the TTL of a key to at least `ttl` ms.
local function prolong(key, ttl)
  local left = call('PTTL', key)
  call('PEXPIRE', key, math.max(left, ttl))
end

-- Removes ended read holds among the first `most` that are due in D. Returns the number of due
-- ones, and the latest end of those that still last.
local function reap(s, index, now, most)
  local longest
  local due = call('ZRANGEBYSCORE', index, '-inf', now, 'LIMIT', 0, most)
  for i = 1, #due do
    local hold = call('HGET', s.key, 'r' .. due[i])
    if lasts(hold, now) then
      local ends = string.sub(hold, 1, 13)
      call('ZADD', index, ends, due[i])
      if not longest or longest < ends then
        longest = ends
      end
    else
      call('ZREM', index, due[i])
      if hold then
        call('HDEL', s.key, 'r' .. due[i])
        if due[i] == s.upgradable then
          call('HDEL', s.key, 'g')
          s.upgradable = false
        end
        if string.sub(hold, 49, 49) ~= 'f' then
          s.count = s.count - 1
          s.reaped = true
        end
      end
    end
  end
  return #due, longest
end

-- Rebuilds D after it has lost holds. D lives as long as the last acquisition made it, and renewals
-- move K alone. O(holds).
local function mend(s, index)
  if call('ZCARD', index) >= s.count then
    return
  end
  local all = call('HGETALL', s.key)
  for i = 1, #all, 2 do
    local owner = string.match(all[i], '^r(.+)')
    if owner then
      call('ZADD', index, string.sub(all[i + 1], 1, 13), owner)
    end
  end
  prolong(index, call('PTTL', s.key))
end

-- Returns true if the readers of the batch may still come.
local function batch_open(s, now)
  return s.batch and string.sub(s.batch, 18, 30) > now
end

-- Removes the readers of the batch that did not come; otherwise each later writer would wait for
-- them again. O(log n) and O(removed).
local function strike_out_missing(s, readers, now)
  if s.batch and not batch_open(s, now) then
    call('ZREMRANGEBYSCORE', readers, '-inf', string.sub(s.batch, 32))
  end
end

-- Opens a batch of all waiting readers, before the next writer. The caller notifies them.
local function open_batch(s, readers, now)
  local newest = call('ZRANGE', readers, 0, 0, 'REV', 'WITHSCORES')[2]
  s.batch = (s.token or NONE) .. ' ' .. (now + GRACE) .. ' ' .. newest
  call('HSET', s.key, 'b', s.batch)
end

-- Does once what the release of a dead writer would have done: opens a batch of the waiting
-- readers. Returns true if they have to be notified.
local function settle_death(s, readers, clients, now)
  if not s.writer or s.ends > now or s.batch and string.sub(s.batch, 1, 16) == s.token then
    return false
  end
  strike_out_missing(s, readers, now)
  local reader, _, more = queue_head(readers, clients, now)
  if reader then
    open_batch(s, readers, now)
    return true
  elseif not more then
    s.batch = s.token .. ' ' .. now .. ' ' .. NONE
    call('HSET', s.key, 'b', s.batch)
  end
  return false
end

-- Returns the first waiting reader if it is in the batch.
local function batch_reader(s, readers, reader, now)
  if reader and batch_open(s, now) then
    return call('ZSCORE', readers, reader) <= string.sub(s.batch, 32)
  end
  return false
end

-- Returns true if the upgradable hold is taken.
local function upgradable_taken(s, now)
  local hold = s.upgradable and call('HGET', s.key, 'r' .. s.upgradable)
  return lasts(hold, now) and string.lower(string.sub(hold, 49, 49)) == 'u'
end

-- Returns the time until which an upgradable reader waits to write; nil if none does.
local function upgrading_until(s, now)
  local until_ms = s.upgrader and string.sub(s.upgrader, 1, 13)
  if until_ms and until_ms > now and upgradable_taken(s, now) then
    return until_ms
  end
  return nil
end

local function is_upgradable(member)
  return string.sub(member, -2) == ' u'
end

-- Tells all waiting readers to ask. The name of a part stands behind K, or behind the prefix if K
-- is `<prefix>:@…`.
local function tell_readers(key)
  local prefix, name = string.match(key, '^([^@{]*)(@.*)$')
  publish('PUBLISH', prefix and prefix .. 'b' .. name or key .. ':b', '')
end

-- Notifies a waiter once.
local function call_once(s, now, member)
  if not (queue_is_called(s.called, member) and string.sub(s.called, 1, 13) > now) then
    queue_call(s.key, now, member)
  end
end

-- Returns true if nobody reads beside `own` holds, judged by 8 of the due ones. If all of those are
-- dead, the result is true as well.
local function readers_are_out(s, index, now, own)
  if s.count > own then
    local due, longest = reap(s, index, now, 8)
    if s.reaped then
      call('HSET', s.key, 'c', counter(s))
    end
    return s.count <= own or due == 8 and not longest
  end
  return true
end

-- Notifies the first waiting reader by itself, if the next writer waits for it, since its client
-- may not know that it waits.
local function call_batch_reader(s, readers, clients, now)
  local reader = queue_head(readers, clients, now)
  if reader and batch_reader(s, readers, reader, now) then
    local verb, channel, n = string.match(reader, '^(%u+) (%S+) (%d+)')
    publish(verb, channel, s.key .. ' ' .. n)
  end
end

-- Returns true if the first in Q may enter. Nobody writes or waits to upgrade; `reader` is the
-- first in R.
local function first_may_enter(s, readers, index, now, first, reader)
  if is_upgradable(first) then
    return not upgradable_taken(s, now)
  end
  return not batch_reader(s, readers, reader, now) and readers_are_out(s, index, now, 0)
end

