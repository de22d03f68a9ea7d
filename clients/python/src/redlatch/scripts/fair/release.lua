local KIND = 'fair:1'
local PARTS = 3
-- The plain case of a release. This part precedes the scripts that release names, and does nothing
-- by itself.

-- Ends a hold that lasts, has this token and only this attempt, and that nobody waits for. The
-- fields h, t, u, n of the name are held, current, until_ms, waiters; `attempts` is ` <attempt> `.
-- An attempt is never used again, so it alone tells the kind and the owner. Returns false without
-- a write if the name is not plain. O(1): HDEL, and PEXPIRE if the lease would have outlasted
-- `keep`, that is now + keep_ms.
local function plain_free(key, held, current, until_ms, waiters, attempts, token, now, keep, keep_ms)
  if current ~= token or held ~= attempts or waiters or not until_ms or until_ms <= now then
    return false
  end
  redis.call('HDEL', key, 'o', 'h', 'u')
  if until_ms > keep then
    redis.call('PEXPIRE', key, keep_ms)
  end
  return true
end

-- The plain case of exclusive/release.lua, which describes keys, arguments and replies. It precedes
-- the functions of the other cases, since the server executes their definitions in every call. This
-- part follows exclusive/plain_free.lua.
--
-- Leaves `began`, the server's time in µs, and `only`: if the call is about one name, its fields.
local time = redis.call('TIME')
local began = time[1] .. string.sub('00000' .. time[2], -6)
local only
if #ARGV == 6 then
  local now = string.sub(began, 1, 13)
  local f = redis.call('HMGET', KEYS[1], 'k', 'o', 'h', 't', 'u', 'n', 'y')
  if ARGV[3] == '' and ARGV[5] == '' then
    local attempts, keep = ' ' .. ARGV[2] .. ' ', ARGV[4]
    if plain_free(KEYS[1], f[3], f[4], f[5], f[6], attempts, ARGV[6], now, (now + keep) .. '', keep) then
      return now .. ' released 0'
    end
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

-- Grants of a name with one owner by a script that frees it: a release, a forced end, a withdrawal.
-- This part follows core/publish.lua and precedes every such script. It does nothing by itself.
--
-- Q  a member may end with an order, `<verb> <channel> <n> <owner> g<lease>.<ttl>.<nonce>`: its
--    waiter accepts a hold that a release writes for it. lease and ttl are in ms; nonce is 16
--    hexadecimal digits
-- K  p, `<token> <abandoned> <n>`: the hold with this token was granted to attempt n by such an
--    order, and its holder has confirmed nothing yet. abandoned = 1 if the holder before never
--    released

-- Longest lease of a hold that its holder has not confirmed, in ms.
local UNCONFIRMED = 5000

-- Gives the name `key`, which is free, to the waiter `head` of `queue`, if it has an order, and
-- tells it. Returns attempt and grant for the reply; nil if it has no order or the server refuses
-- the message. `before` is about the hold that has ended, with the fields
--
--   now, micros  the time
--   token        its token, the last one; nil or false if there was none
--   clean        true if it was released
--   abandoned    1 if its holder never released, else 0. Field `died` keeps the token of the hold
--                after such a one
--   called       field y
--   client       the client that gets the reply, if it passes a grant on to its own waiters: they
--                get no message
--   life         ms that K has to last at least, or nil to leave that to its TTL
--   written      true if the script has written before, and a full server has accepted that
--   given        set to true by a grant, which has set the TTL of K
--
-- Begins with a write that a full server accepts, so a server that takes no writes refuses before
-- the message is out. O(log waiters): ZREM, HSET, PEXPIRE, and HDEL, PUBLISH or PTTL.
local function give(key, queue, head, kind, died, before)
  local verb, channel, n, owner, lease, ttl, nonce =
    string.match(head, '^(%u+) (%S+) (%d+) (%d+) g(%d+)%.(%d+)%.(%x+)$')
  local client = nonce and string.match(channel, '^[^{]*:([^:{]+)')
  if not client or verb == 'NONE' or #n > 15 or #owner > 15 or #lease > 15 or #ttl > 15 then
    return nil
  end
  local token, new, abandoned = before.token, before.micros, before.abandoned
  if token and new <= token then
    new = string.format('%.0f', token + 1)
  end
  local span = lease + 0
  if span > UNCONFIRMED then
    span = UNCONFIRMED
  end
  local ends = (before.now + span) .. ''
  local grant = 'g' .. nonce .. '.' .. new .. '.' .. ends .. '.' .. abandoned
  if client ~= before.client then
    if not before.written then
      redis.call('HDEL', key, '')
    end
    if publish(verb, channel, key .. ' ' .. n .. ' ' .. grant) then
      return nil
    end
  end
  redis.call('ZREM', queue, head)
  if before.called then
    redis.call('HDEL', key, 'y')
  end
  local attempt = client .. ':' .. n
  local write = {'k', kind, 'o', client .. ':' .. owner, 'h', ' ' .. attempt .. ' ', 't', new,
    'u', ends, 'p', new .. ' ' .. abandoned .. ' ' .. n}
  if before.clean and token then
    write[13], write[14] = 'z', token
  elseif abandoned == 1 then
    write[13], write[14] = died, new
  end
  redis.call('HSET', key, unpack(write))
  local life = span + ttl - lease
  local least = before.life or redis.call('PTTL', key)
  if least + 0 > life then
    life = least
  end
  if before.life or least < life then
    redis.call('PEXPIRE', key, life)
  end
  before.given = true
  return attempt, grant
end
-- The fair lock's way to go on when a name is free. This part follows a line that sets KIND,
-- core/queue.lua, core/unconfirmed.lua and core/give.lua, and precedes the scripts that free names.

-- Gives name i, which is free, to its first waiter if that has an order, and otherwise notifies
-- that waiter, unless it was notified before. `before` is about the hold that has ended, see
-- core/give.lua. Returns ` granted <attempt> <grant>` if the name was given. O(log waiters) and
-- O(dead, at most 64).
local function wake(i, m, now, before)
  local key, q, l = KEYS[i], KEYS[m + i], KEYS[2 * m + i]
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

-- Ends everything that one attempt has on m names: its hold, its place among the waiters, its late
-- copies. Release, undo of an abandoned acquire, and leave of a waiter are the same operation. This
-- script follows exclusive/release_plain.lua, core/marks.lua, and the wake.lua of its kind, which
-- has `wake` and `remind`.
--
-- KEYS  1..m      K of each name
--       m+1..     the indexes of its waiters, first Q of each; optional (a slot on the move);
--                 without them nobody is notified
-- ARGV  1 owner   `<client>:<n>`
--       2 attempt `<client>:<n>`, or '' to end no hold
--       3 void    last ms at which a copy of the acquire may act, or '' without copies
--       4 keep    ms the token is kept after the name is free
--       5 address the waiter to remove, `<verb> <channel> <n>`, or ''; behind a `+` the next local
--         waiter, to remove if this call frees the name
--       6..5+m    token of each hold, or '' where it is not known
-- Reply {now, verdict, left, …}
--                two items per name; left = attempts that still hold. For one name: the same items
--                as one text, separated by spaces, and the kind's report on waiters
--       released  this call ended the attempt's hold
--       expired   the same, but the lease had already ended
--       already   the hold had ended cleanly before
--       revoked   the hold had been ended by force
--       taken     the name has passed to a later hold
--       gone      the hold is unknown
--       kind      the name is of another kind
-- Cost  O(m): TIME, and per name HMGET, HDEL, PEXPIRE; with waiters the cost of a notification, see
--       the kind; with copies on the way + HDEL, HGET, HMGET, HSET, see core/marks.lua.
--
-- Needs no `by`: an attempt's id is never used again, so a late or repeated call ends only what
-- that attempt has. Begins with writes that a full server accepts.
local call = redis.call
local micros, now = began, string.sub(began, 1, 13)
local owner, attempt, void, keep, address = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local m = #ARGV - 5

local reply = m > 1 and {now}
local told = ''
for i = 1, m do
  local key, queue, token = KEYS[i], KEYS[m + i], ARGV[5 + i]
  -- k kind, o owner, h attempts, t token, u until, n waiters until, y notified waiter
  local f = only or call('HMGET', key, 'k', 'o', 'h', 't', 'u', 'n', 'y')
  local verdict, left = 'kind', 0
  if f[1] == KIND or not f[1] then
    local live, rest = f[5] and f[5] > now, f[3]
    local from, to, ended
    if f[2] == owner and attempt ~= '' then
      from, to = string.find(rest, ' ' .. attempt .. ' ', 1, true)
    end

    if from then
      rest = string.sub(rest, 1, from) .. string.sub(rest, to + 1)
      verdict = live and 'released' or call('HGET', key, 'f') == f[4] and 'revoked' or 'expired'
      -- p says how the holder before a hold ended that its holder has not confirmed. An undo of
      -- such a hold passes that on, also when its time is over.
      local before = token == '' and rest == ' ' and call('HGET', key, 'p')
      if before and string.sub(before, 1, 18) == f[4] .. ' 1' then
        live = false
        rest = ' - '
        call('HDEL', key, 'p')
        call('HSET', key, 'h', rest, 'u', '0000000000000')
      elseif rest == ' ' and live then
        live, ended = false, true
        f[2] = false
        call('HDEL', key, 'o', 'h', 'u', 'p')
      else
        call('HDEL', key, '')
        if rest == ' ' then
          -- An expired hold keeps its owner field, so that a copy of this call gets the same
          -- answer. The clock of another server may be behind: an end here has to be an end there.
          call('HSET', key, 'h', rest, 'u', '0000000000000')
        else
          call('HSET', key, 'h', rest)
        end
      end
      if token ~= '' and token < f[4] then
        verdict = 'taken'
      end
    elseif not f[4] or token == '' then
      verdict = 'gone'
    elseif f[4] == token and (live or not f[2]) then
      verdict = 'already'
    else
      -- z last token that was released, f token that was forced
      local z = call('HMGET', key, 'z', 'f')
      if z[1] == token then
        verdict = 'already'
      elseif z[2] == token then
        verdict = 'revoked'
      elseif f[4] == token then
        -- ` - ` is a hold that was withdrawn while this call was on its way.
        verdict = rest == ' - ' and 'already' or 'expired'
      elseif token < f[4] then
        verdict = 'taken'
      else
        verdict = 'gone'
      end
    end
    -- Waiters may need the key for longer than the token.
    local life = keep
    if f[6] and f[6] - now > keep + 0 then
      life = f[6] - now
    end
    if live and f[2] == owner then
      local _, spaces = string.gsub(rest, ' ', ' ')
      left = spaces - 1
    end

    if void ~= '' and void >= now then
      -- Copies of this attempt must not act any more.
      marks_add(key, call('HGET', key, 'v'), KIND, attempt, void, now)
    end

    if queue and address ~= '' then
      if string.sub(address, 1, 1) ~= '+' then
        call('ZREM', queue, address)
      elseif verdict == 'released' and not live then
        call('ZREM', queue, string.sub(address, 2))
      end
    end
    if not live then
      local before
      if queue and f[6] then
        before = {
          now = now, micros = micros, token = f[4], clean = not f[2], abandoned = f[2] and rest ~= ' ' and 1 or 0,
          client = m == 1 and string.match(owner, '^[^:]*'), life = life, given = false, called = f[7],
          written = from,
        }
        told = wake(i, m, now, before) or ''
      end
      if not before or not before.given then
        -- K lives longer than the lease by `keep`, which is long enough but after a long lease.
        if not ended or life ~= keep or f[5] > (now + keep) .. '' then
          call('PEXPIRE', key, life)
        end
      end
    elseif m == 1 and not from then
      told = remind(key, f[4], f[2], owner)
    end
  end
  if m == 1 then
    return now .. ' ' .. verdict .. ' ' .. left .. told
  end
  reply[2 * i], reply[2 * i + 1] = verdict, left
end
return reply
