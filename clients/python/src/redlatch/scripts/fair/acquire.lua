local KIND = 'fair:1'
local PARTS = 3
-- The plain case of an acquisition, which most of them are. This part follows a line that sets
-- KIND, precedes the scripts that take names, and does nothing by itself.

-- Takes a name that nobody holds or waits for, and on which no attempt was undone: its fields are
-- kind, owner, token, voids, waiters. `micros` is the time in µs. Returns the token of the new
-- hold, or nil without a write if the name is not plain. `attempts` is ` <attempt> `. O(1): HSET,
-- PEXPIRE.
local function plain_take(key, kind, owner, token, voids, waiters, new_owner, attempts, micros, ends, ttl)
  if owner or voids or waiters or kind and kind ~= KIND then
    return nil
  end
  local new = micros
  if token then
    if new <= token then
      new = string.format('%.0f', token + 1)
    end
    -- A token without an owner was released; z keeps it for a repeated release.
    redis.call('HSET', key, 'o', new_owner, 'h', attempts, 't', new, 'u', ends, 'z', token)
  else
    redis.call('HSET', key, 'k', KIND, 'o', new_owner, 'h', attempts, 't', new, 'u', ends)
  end
  redis.call('PEXPIRE', key, ttl)
  return new
end

-- The beginning of scripts that must not act late, and of which most calls are plain: reads the
-- server's time, and refuses a request that comes too late. It precedes the functions of the other
-- cases, since the server executes their definitions in every call.
--
-- ARGV  1 act_before  last server time in ms at which the script may act
-- Reply {now, 'late'}   `act_before` has passed
--       an error `CLOCK …` if the server's clock cannot be compared as text
--
-- Leaves `began`, the time in µs with 16 digits. Its first 13 digits are ms. Times are compared as
-- text of equal length, which saves conversions. `..` may be used on ms, and not on µs, which have
-- too many digits.
local time = redis.call('TIME')
if #time[1] ~= 10 then
  return redis.error_reply('CLOCK the clock of this server is not between 2001 and 2286')
end
local began = time[1] .. string.sub('00000' .. time[2], -6)
if string.sub(began, 1, 13) > ARGV[1] or #ARGV[1] ~= 13 then
  return {string.sub(began, 1, 13), 'late'}
end

-- The plain case of exclusive/acquire.lua, which describes keys, arguments and replies. This part
-- follows exclusive/plain_take.lua, core/begin.lua and a line that sets KIND and PARTS.
--
-- Leaves `only`: if the call is about one name, its fields.
local only
if #KEYS == PARTS then
  local now = string.sub(began, 1, 13)
  local f = redis.call('HMGET', KEYS[1], 'k', 'o', 't', 'u', 'v', 'n', 'y', 'p')
  local attempts, ends = ' ' .. ARGV[3] .. ' ', (now + ARGV[4]) .. ''
  local token = plain_take(KEYS[1], f[1], f[2], f[3], f[5], f[6], ARGV[2], attempts, began, ends, ARGV[5])
  if token then
    return now .. ' granted 1 ' .. token .. ' 0 '
  end
  only = f
end

-- Void marks of undone attempts. A mark keeps late copies of its attempt from acting. This part
-- precedes the scripts that set or read marks, and does nothing by itself.
--
-- K  v            `<first> <last> <marks in the last> <end of the first> <end of the last>`, the
--                 list of chunks; absent without marks
--    v<i>         `<end> <attempt> …`, chunk i: at most 64 attempts; their marks are over at the
--                 chunk's end (ms)
--    v:<attempt>  ms until which copies of the attempt may act
--
-- A script reads a mark by its name, and only if `v` exists. Expired marks are harmless. Each
-- script that takes the name or sets a mark removes the marks of one expired chunk, so that its
-- cost does not grow with their number. Times are text of 13 digits and compared as text.

-- Size of a chunk, and the ms by which it outlasts its first mark.
local MARKS = 64
local MARKS_SPAN = 500

-- Removes the marks of the first chunk if all of them are over. Returns the new `v`. O(1), with an
-- expired chunk O(64). Begins with HDEL, which a full server accepts.
local function marks_sweep(key, v, now)
  local first, last, count, over, newest = string.match(v, '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
  if over and over >= now then
    return v
  elseif not over then
    redis.call('HDEL', key, 'v')
    return false
  end
  local gone = {'v' .. first}
  local fields = {}
  for attempt in string.gmatch(string.sub(redis.call('HGET', key, 'v' .. first) or '', 15), '%S+') do
    fields[#fields + 1] = 'v:' .. attempt
  end
  if fields[1] then
    local ends = redis.call('HMGET', key, unpack(fields))
    for i = 1, #fields do
      -- A prolonged mark is in a later chunk as well.
      if ends[i] and ends[i] < now then
        gone[#gone + 1] = fields[i]
      end
    end
  end
  if first == last then
    gone[#gone + 1] = 'v'
    redis.call('HDEL', key, unpack(gone))
    return false
  end
  redis.call('HDEL', key, unpack(gone))
  first = first + 1 .. ''
  over = newest
  if first ~= last then
    over = string.sub(redis.call('HGET', key, 'v' .. first) or now, 1, 13)
  end
  v = first .. ' ' .. last .. ' ' .. count .. ' ' .. over .. ' ' .. newest
  redis.call('HSET', key, 'v', v)
  return v
end

-- Marks an attempt whose copies could act until `void`. `v` is that field; `kind` becomes field k.
-- O(1), plus the removal of a chunk. Begins with HDEL, which a full server accepts. The caller sets
-- the key's TTL.
local function marks_add(key, v, kind, attempt, void, now)
  redis.call('HDEL', key, '')
  v = v and marks_sweep(key, v, now)
  local first, last, count, over, newest = '1', '0', '0', '', ''
  if v then
    first, last, count, over, newest = string.match(v, '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
  end
  local f = redis.call('HMGET', key, 'v:' .. attempt, 'v' .. last)
  if f[1] and f[1] >= void then
    return
  end
  local chunk = f[2]
  if chunk and count + 0 < MARKS and void <= newest then
    chunk = chunk .. ' ' .. attempt
    count = count + 1
  else
    newest = (void + MARKS_SPAN) .. ''
    last = last + 1 .. ''
    count = 1
    chunk = newest .. ' ' .. attempt
    if over == '' then
      over = newest
    end
  end
  v = first .. ' ' .. last .. ' ' .. count .. ' ' .. over .. ' ' .. newest
  redis.call('HSET', key, 'k', kind, 'v', v, 'v' .. last, chunk, 'v:' .. attempt, void)
end

-- Publishes messages. This part precedes every script that publishes.

-- Publishes `message`. Returns the server's error if it refuses, such as for a missing right. Verb
-- and channel may come from a sorted set that others can write to, so this function sends messages
-- and nothing else.
local function publish(verb, channel, message)
  if verb == 'PUBLISH' or verb == 'SPUBLISH' then
    local reply = redis.pcall(verb, channel, message)
    return type(reply) == 'table' and reply.err or nil
  end
  return nil
end

-- The waiters of one object, served in order of arrival. This part follows core/publish.lua and
-- precedes every script that uses such a queue. It does nothing by itself.
--
-- Q  sorted set, member `<verb> <channel> <n>[ <what>]` -> ticket, in µs and rising in order of
--    arrival
-- L  sorted set, member `<channel>` up to a brace, a client -> ms until which its waiters count as
--    alive. In a cluster a client has a channel for each shard, `<channel>{<tag>}`
-- K  fields
--      n  ms until which there may be waiters, none if it is absent or over; later than the latest
--         time in L
--      y  `<ms> <member>`, the waiter that was notified last, and the ms until which it may come
--
-- A waiter is dead if its client has sent nothing for long, or if it was notified and did not come.
-- Each script that looks removes dead waiters at the front, 64 at most. Times are text of 13 digits
-- and compared as text. Tickets have 16 digits and never pass through `..`.

-- How long a notified waiter may take to come, in ms.
local GRACE = 5000

local function queue_client(member)
  return string.match(member, '^%u+ ([^ {]+)')
end

-- Returns true if `called`, the field y, names `member`.
local function queue_is_called(called, member)
  return called and string.sub(called, 15) == member
end

-- Returns the first living member, and the ms until which it is alive. Returns nil if there is
-- none, and nil, true, true if too many dead ones precede it; the third value says only that.
-- `known` is a client that is alive until `known_until`, or nil. O(log n) and O(dead, at most 64).
-- Writes only if some are dead.
local function queue_head(q, l, now, called, known, known_until)
  local removed = 0
  local count = 0
  repeat
    local members = redis.call('ZRANGE', q, 0, count)
    count = 15
    for i = 1, #members do
      local member = members[i]
      local client = queue_client(member)
      local alive = client == known and known_until or redis.call('ZSCORE', l, client)
      if alive and queue_is_called(called, member) then
        local patience = string.sub(called, 1, 13)
        if patience < alive then
          alive = patience
        end
      end
      if alive and alive > now then
        return member, alive
      end
      redis.call('ZREM', q, member)
      removed = removed + 1
    end
    if #members == 0 then
      return nil
    end
  until removed >= 48
  return nil, true, true
end

-- Notifies a waiter of its turn. Begins with a write that a full server accepts.
local function queue_call(k, now, member)
  redis.call('HDEL', k, '')
  redis.call('HSET', k, 'y', (now + GRACE) .. ' ' .. member)
  local verb, channel, n = string.match(member, '^(%u+) (%S+) (%d+)')
  publish(verb, channel, k .. ' ' .. n)
end

-- Makes a living client look when too many dead waiters are at the front for one script: one of
-- those that came last.
local function queue_call_any(k, q, l, now)
  for _, member in ipairs(redis.call('ZRANGE', q, -16, -1)) do
    local verb, channel = string.match(member, '^(%u+) (%S+)')
    local alive = redis.call('ZSCORE', l, queue_client(member))
    if verb ~= 'NONE' and alive and alive > now then
      publish(verb, channel, k)
      return
    end
  end
end

-- How a waiter joins the queue of core/queue.lua, which precedes this part. It does nothing by
-- itself.

-- By how much field n and the TTLs of Q and L outlast the registration that sets them, in ms, so
-- that few registrations have to set them.
local RESERVE = 100

-- Records the client of `member` as alive until `alive`. `flag` is the field n, `ends` the ms until
-- which K certainly lives, `other` another queue of the object with the same L. Returns the new
-- field n, and the client. A full server refuses the first write. O(log clients): ZADD, and once
-- in RESERVE ms HSET, PTTL, PEXPIRE.
local function queue_touch(k, q, l, now, member, alive, flag, ends, other)
  local client = queue_client(member)
  local new = redis.call('ZADD', l, alive, client)
  local ahead = flag and flag - alive
  if ahead and ahead > 0 and ahead <= RESERVE then
    if new == 1 then
      -- L may be new, although the field is not.
      redis.call('PEXPIRE', l, flag - now - 1)
    end
    return flag, client
  end
  local last = (alive + RESERVE) .. ''
  if flag and flag > last then
    -- Somebody stays longer, and need not have prolonged all keys.
    last = flag
  end
  redis.call('HSET', k, 'n', last)
  if not ends or ends < last then
    if redis.call('PTTL', k) < last - now then
      redis.call('PEXPIRE', k, last - now)
    end
  end
  -- When the field is over, the queues are gone.
  redis.call('PEXPIRE', l, last - now - 1)
  redis.call('PEXPIRE', q, last - now - 1)
  if other then
    redis.call('PEXPIRE', other, last - now - 1)
  end
  return last, client
end

-- Adds a waiter, whose client is recorded as alive, behind all others. Returns 1, or 0 if it is
-- there already, and the new field y. Q lives until `last`. O(log n): ZADD, ZCOUNT, ZCARD.
local function queue_enter(k, q, now, micros, member, last, called)
  if redis.call('ZADD', q, 'NX', micros, member) == 0 then
    return 0, called
  end
  if redis.call('ZCOUNT', q, micros, '+inf') > 1 then
    -- The clock was ahead when one of the others came.
    redis.call('ZREM', q, member)
    local newest = redis.call('ZRANGE', q, -1, -1, 'WITHSCORES')[2]
    redis.call('ZADD', q, string.format('%.0f', newest + 1), member)
  elseif redis.call('ZCARD', q) == 1 then
    redis.call('PEXPIRE', q, last - now - 1)
  end
  if queue_is_called(called, member) then
    -- It was notified and did not come in time: it joins at the end.
    redis.call('HDEL', k, 'y')
    called = false
  end
  return 1, called
end

-- Returns the ms until which any of those before the first waiter of `client` counts as alive, if
-- that waiter is among the first 16. The head is alive until `alive`. After that time, if nobody
-- has come, the client should look. Returns nil if that waiter is the head itself. Also nil if it
-- is not among the first 16, unless `now` is given and at most 16 clients are alive: then all of
-- them may look.
local function queue_before(q, l, client, alive, now)
  local members = redis.call('ZRANGE', q, 0, 15)
  local ahead, found = {}, false
  for i = 1, #members do
    local other = queue_client(members[i])
    if other == client then
      if i == 1 then
        return nil
      end
      found = true
      break
    end
    if i > 1 and not ahead[other] then
      ahead[other] = true
    end
  end
  if not found and (not now or redis.call('ZCOUNT', l, '(' .. now, '+inf') > 16) then
    return nil
  end
  for one in pairs(ahead) do
    local until_then = redis.call('ZSCORE', l, one)
    if until_then and until_then > alive then
      alive = until_then
    end
  end
  return alive
end

-- Holds that a release has granted and that their holders have not confirmed, see field p in
-- core/give.lua. This part does nothing by itself.

-- Returns the number of the attempt that holds without having confirmed it, nil if there is none.
-- `p` is the field, `token` that of the hold.
local function give_unconfirmed(p, token)
  if p and string.sub(p, 1, 16) == token then
    return string.sub(p, 20)
  end
  return nil
end

-- Returns the number of the attempt of `holder` that holds without having confirmed it, if it is of
-- the client of `asker`: its message may have been lost. Otherwise ''. `holder` and `asker` are
-- owners.
local function give_unheard(p, token, holder, asker)
  local n = give_unconfirmed(p, token)
  if n and string.match(holder, '^[^:]*') == string.match(asker, '^[^:]*') then
    return n
  end
  return ''
end

-- Returns the attempt that holds if it has not confirmed that and is of the client of `asker`, else
-- nil. A repeated release ends its reply with `holds <attempt>`: the reply to the first one, which
-- told of the grant, may be lost.
local function give_reminder(p, token, holder, asker)
  local n, client = give_unconfirmed(p, token), string.match(asker, '^[^:]*')
  if n and string.match(holder, '^[^:]*') == client then
    return client .. ':' .. n
  end
  return nil
end

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

-- Records that the client of this call waits for name i, if the call registers a waiter. For a call
-- that `wait` has not seen. O(log clients).
local function stay(i, m, f, now)
  if ARGV[6] ~= '' then
    f[6] = queue_touch(KEYS[i], KEYS[m + i], KEYS[2 * m + i], now, ARGV[7], (now + ARGV[6]) .. '', f[6])
  end
end

-- Takes m names for one owner, exclusively: all of them or none. This script follows
-- exclusive/acquire_plain.lua, core/marks.lua, and the wait.lua of its kind, which has `wait` and
-- `stay`.
--
-- KEYS  1..m      K of each name: the hash that decides
--       m+1..     the indexes of its waiters, PARTS - 1 for each name; see the kind
-- ARGV  1 by      last server time in ms at which this may act
--       2 owner   the new holder, `<client>:<n>`
--       3 attempt `<client>:<n>`, never used twice
--       4 lease   ms
--       5 ttl     ms, lease + retention of the token
--       6 waiter  ms the waiter stays registered if it has to wait, or '' not to register
--       7 address for the notification, `<verb> <channel> <n>`, or ''
-- Reply {now, 'granted', count, token, abandoned, lasts, …}
--                for one name, then what the kind adds; for more names, four more items each.
--                abandoned = 1 if the previous holder never released, lasts = ms from now if that
--                is less than the requested lease (its renewal is forbidden), else ''.
--                For one name whose kind adds nothing: the same items as one text, separated by
--                spaces. A list costs the server more than a µs to write, and the client as much
--                to read.
--       {now, 'busy', i, look ms, holder, …}
--                as a text. Another owner has name i, or it is another's turn; look = ms until
--                the next re-check is useful; see the kind
--       {now, 'more'}           too much to remove in one call: ask again at once
--       {now, 'late'}           `by` has passed
--       {now, 'void'}           this attempt was undone
--       {now, 'kind', i, kind}  name i is of another kind
-- Cost  O(m): TIME, and per name HMGET, HSET, PEXPIRE; a busy answer HMGET and the kind's share;
--       with void marks HGET, and HGET, HMGET, HDEL, HGET, HSET to remove 64 expired ones; see
--       core/marks.lua.
local call = redis.call
local micros, now = began, string.sub(began, 1, 13)
local owner, attempt, lease, ttl, address = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[7]
local m = #KEYS / PARTS
local ends = (now + lease) .. ''
local names = {}
for i = 1, m do
  -- k kind, o owner, t token, u until, v voids, n waiters until, y notified waiter, p grant by a
  -- release that is not confirmed
  local f = only or call('HMGET', KEYS[i], 'k', 'o', 't', 'u', 'v', 'n', 'y', 'p')
  if f[1] ~= KIND and f[1] then
    return {now, 'kind', i, f[1]}
  end
  if f[5] and call('HGET', KEYS[i], 'v:' .. attempt) then
    return {now, 'void'}
  end
  local held = f[2] and f[4] > now
  if held and f[2] ~= owner or f[6] and not held then
    local answer = wait(i, m, f, now, micros)
    if answer then
      return answer
    end
  end
  names[i] = f
end

local replies = m > 1 and {}
for i = 1, m do
  local key, f = KEYS[i], names[i]
  local count, token, abandoned, lasts, last = 1, f[3], 0, '', f[3]
  -- Waiters may need the key for longer than this hold.
  local life = ttl
  if f[6] and f[6] - now > ttl + 0 then
    life = f[6] - now
  end
  if not f[2] or f[4] <= now then
    token = micros
    if last and token <= last then
      token = string.format('%.0f', last + 1)
    end
    if f[2] then
      -- A release after the end has emptied the set.
      if call('HGET', key, 'h') ~= ' ' then
        abandoned = 1
        -- A copy of this attempt gets the same answer.
        call('HSET', key, 'b', token)
      end
      call('HSET', key, 'o', owner, 'h', ' ' .. attempt .. ' ', 't', token, 'u', ends)
    elseif last then
      -- A token without an owner was released; z keeps it for a repeated release.
      call('HSET', key, 'o', owner, 'h', ' ' .. attempt .. ' ', 't', token, 'u', ends, 'z', last)
    else
      call('HSET', key, 'k', KIND, 'o', owner, 'h', ' ' .. attempt .. ' ', 't', token, 'u', ends)
    end
    call('PEXPIRE', key, life)
  else
    -- Re-entry: the attempt joins the set; the lease never gets shorter. h attempts, f token whose
    -- renewal is forbidden, b token after a holder that died, p grant by a release that is not
    -- confirmed
    local h = call('HMGET', key, 'h', 'f', 'b', 'p')
    local held = h[1]
    if h[4] then
      call('HDEL', key, 'p')
      if string.sub(h[4], 1, 16) == token then
        -- The place in the queue was used by the grant.
        f.place = 1
        stay(i, m, f, now)
        if f[6] and f[6] - now > life + 0 then
          life = f[6] - now
        end
      end
    end
    if not string.find(held, ' ' .. attempt .. ' ', 1, true) then
      held = held .. attempt .. ' '
    end
    local later = ends
    if f[4] > ends or h[2] == token then
      -- The lease is longer already, or its renewal is forbidden.
      later = f[4]
      if f[4] < ends then
        lasts = f[4] - now
      end
    end
    if h[3] == token then
      abandoned = 1
    end
    call('HSET', key, 'h', held, 'u', later)
    call('PEXPIRE', key, later - ends + life)
    local _, spaces = string.gsub(held, ' ', ' ')
    count = spaces - 1
  end
  if f[5] then
    marks_sweep(key, f[5], now)
  end
  if f[6] and address ~= '' then
    call('ZREM', KEYS[m + i], address)
  end
  if m == 1 then
    if f.place then
      return {now, 'granted', count, token, abandoned, lasts, f.place}
    end
    return now .. ' granted ' .. count .. ' ' .. token .. ' ' .. abandoned .. ' ' .. lasts
  end
  local at = 4 * i
  replies[at - 3], replies[at - 2], replies[at - 1], replies[at] = count, token, abandoned, lasts
end
return {now, 'granted', unpack(replies)}
