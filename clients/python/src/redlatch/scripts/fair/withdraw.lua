local KIND = 'fair:1'
local PARTS = 3
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

-- Entries of one client's waiters that no longer wait. A server may have them after a failover, a
-- restart, or a forgotten undo. This part follows the parts of a kind and precedes its
-- withdraw.lua. It does nothing by itself.

-- Number of members of a queue that one script examines.
local LOOKED_AT = 1024

-- Returns the number of `member` if it is a waiter of `client`, else nil.
local function withdraw_number(member, client)
  local channel, number = string.match(member, '^%u+ (%S+) (%d+)')
  if channel == client or channel and string.sub(channel, 1, #client + 1) == client .. '{' then
    return number
  end
  return nil
end

-- Appends the numbers of the waiters of `client` to `found`, among the first 1024 of the queue.
-- O(log n + 1024).
local function withdraw_list(queue, client, found)
  local members = redis.call('ZRANGE', queue, 0, LOOKED_AT - 1)
  for i = 1, #members do
    local number = withdraw_number(members[i], client)
    if number then
      found[#found + 1] = number
    end
  end
end

-- Removes the waiters of `client` whose number is in the set `gone`, among the first 1024 of the
-- queue. O(log n + 1024).
local function withdraw_strike(queue, client, gone)
  local members = redis.call('ZRANGE', queue, 0, LOOKED_AT - 1)
  for i = 1, #members do
    local number = withdraw_number(members[i], client)
    if number and gone[number] then
      redis.call('ZREM', queue, members[i])
    end
  end
end

-- Returns the arguments from `from` on as a set.
local function withdraw_set(from)
  local gone = {}
  for i = from, #ARGV do
    gone[ARGV[i]] = true
  end
  return gone
end

-- Removes entries of one client's waiters that no longer wait, and notifies the next waiter. This
-- script follows the wake.lua of its kind, which has `wake`, and core/withdraw.lua.
--
-- KEYS  1 K, then the indexes of its waiters, first Q
-- ARGV  1 what    'list' returns the client's waiters, 'strike' removes the named ones
--       2 client  channel of the client, up to a brace
--       3..       numbers of waiters, 1024 at most
-- Reply {now, 'found', number, …}  to 'list': the client's waiters among the first 1024 of Q
--                and the one to which a release gave the name, until its holder has confirmed it
--       {now, 'struck'}
--                to 'strike': they are removed, and so is such a hold; if the name is free, the
--                next waiter was notified or has it, and the reply is a text with the kind's
--                report on waiters
--       {now, 'kind', kind}        the name is of another kind, or free
-- Cost  O(log n + 1024): TIME, HMGET, ZRANGE, ZREM for each removed one, and the cost of a
--       notification, see the kind.
--
-- Needs no `by`: a waiter's number is never used again. Begins with writes that a full server
-- accepts.
local time = redis.call('TIME')
local micros = time[1] .. string.sub('00000' .. time[2], -6)
local now = string.sub(micros, 1, 13)
-- k kind, o owner, u until, t token, h attempts, p grant by a release that is not confirmed, y
-- notified waiter
local f = redis.call('HMGET', KEYS[1], 'k', 'o', 'u', 't', 'h', 'p', 'y')
if f[1] ~= KIND then
  return {now, 'kind', f[1] or ''}
end
local given
if f[2] and f[3] > now and f[6] and string.sub(f[6], 1, 16) == f[4] then
  -- The number of the attempt to which a release gave the name, if it is of this client.
  given = string.sub(ARGV[2], -#string.match(f[2], '^[^:]*')) == string.match(f[2], '^[^:]*')
    and string.sub(f[6], 20)
end
if ARGV[1] == 'list' then
  local reply = {now, 'found', given or nil}
  withdraw_list(KEYS[2], ARGV[2], reply)
  return reply
end
local gone = withdraw_set(3)
withdraw_strike(KEYS[2], ARGV[2], gone)
local clean, abandoned = not f[2], f[2] and f[5] ~= ' ' and 1 or 0
if given and gone[given] then
  -- Nobody stands behind the hold. It ends as by an undo, see exclusive/release.lua.
  f[2] = false
  clean = string.sub(f[6], 18, 18) == '0'
  if clean then
    redis.call('HDEL', KEYS[1], 'o', 'h', 'u', 'p')
    abandoned = 0
  else
    redis.call('HDEL', KEYS[1], 'p')
    redis.call('HSET', KEYS[1], 'h', ' - ', 'u', '0000000000000')
    abandoned = 1
  end
end
if not f[2] or f[3] <= now then
  local before = {now = now, micros = micros, token = f[4], clean = clean, abandoned = abandoned, called = f[7]}
  return now .. ' struck' .. (wake(1, 1, now, before) or '')
end
return {now, 'struck'}
