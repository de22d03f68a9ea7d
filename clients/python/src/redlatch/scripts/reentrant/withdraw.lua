local KIND = 'lock:1'
local PARTS = 2
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

-- The plain lock's way to go on when a name is free. This part follows core/publish.lua, and
-- precedes the scripts that free names.

-- Notifies one living waiter of name i. Returns its channel and the number of the others. O(log
-- waiters, dead waiters): ZPOPMIN, ZCARD, PUBLISH; with dead ones ZREMRANGEBYSCORE, ZPOPMIN.
local function wake(i, m, now, _before)
  local key, queue = KEYS[i], KEYS[m + i]
  local first = redis.call('ZPOPMIN', queue)
  if first[1] and first[2] <= now then
    redis.call('ZREMRANGEBYSCORE', queue, '-inf', now)
    first = redis.call('ZPOPMIN', queue)
  end
  if first[1] then
    local verb, channel = string.match(first[1], '^(%u+) (%S+)')
    local left = redis.call('ZCARD', queue)
    publish(verb, channel, key)
    return ' ' .. channel .. ' ' .. left
  else
    redis.call('HDEL', key, 'n')
  end
end

-- Only kinds with an order give a name to a waiter.
local function remind(_key, _token, _holder, _asker)
  return ''
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
