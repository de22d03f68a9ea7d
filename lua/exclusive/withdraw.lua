-- uses $kind/exclusive, $like/wake, core/withdraw
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
-- Needs no `act_before`: a waiter's number is never used again. Begins with writes that a full
-- server accepts.
local time = redis.call('TIME')
local micros = time[1] .. string.sub('00000' .. time[2], -6)
local now = string.sub(micros, 1, 13)
-- unheard is a grant by a release that is not confirmed, called the waiter that was notified.
local kind, owner, ends, token, attempts, unheard, called =
  unpack(redis.call('HMGET', KEYS[1], 'k', 'o', 'u', 't', 'h', 'p', 'y'))
if kind ~= KIND then
  return {now, 'kind', kind or ''}
end
local given
if owner and ends > now and unheard and string.sub(unheard, 1, 16) == token then
  -- The number of the attempt to which a release gave the name, if it is of this client.
  given = string.sub(ARGV[2], -#string.match(owner, '^[^:]*')) == string.match(owner, '^[^:]*')
    and string.sub(unheard, 20)
end
if ARGV[1] == 'list' then
  local reply = {now, 'found', given or nil}
  withdraw_list(KEYS[2], ARGV[2], reply)
  return reply
end
local gone = withdraw_set(3)
withdraw_strike(KEYS[2], ARGV[2], gone)
local clean, abandoned = not owner, owner and attempts ~= ' ' and 1 or 0
if given and gone[given] then
  -- Nobody stands behind the hold. It ends as by an undo, see exclusive/release.lua.
  owner = false
  clean = string.sub(unheard, 18, 18) == '0'
  if clean then
    redis.call('HDEL', KEYS[1], 'o', 'h', 'u', 'p')
    abandoned = 0
  else
    redis.call('HDEL', KEYS[1], 'p')
    redis.call('HSET', KEYS[1], 'h', ' - ', 'u', '0000000000000')
    abandoned = 1
  end
end
if not owner or ends <= now then
  local before = {now = now, micros = micros, token = token, clean = clean, abandoned = abandoned, called = called}
  return now .. ' struck' .. (wake(1, now, before) or '')
end
return {now, 'struck'}
