-- Removes entries of one client's waiters that no longer wait, and notifies the next waiter. This
-- script follows the kind.lua of its kind, which has KIND and `wake`, and core/withdraw.lua.
--
-- KEYS  1 K, then the indexes of its waiters, first Q
-- ARGV  1 what    'list' returns the client's waiters, 'strike' removes the named ones
--       2 client  channel of the client, up to a brace
--       3..       numbers of waiters, 1024 at most
-- Reply {now, 'found', number, …}  to 'list': the client's waiters among the first 1024 of Q
--       {now, 'struck'}
--                to 'strike': they are removed; if the name is free, the next waiter was notified
--       {now, 'kind', kind}        the name is of another kind, or free
-- Cost  O(log n + 1024): TIME, HMGET, ZRANGE, ZREM for each removed one, and the cost of a
--       notification, see the kind.
--
-- Needs no `by`: a waiter's number is never used again. Begins with writes that a full server
-- accepts.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local f = redis.call('HMGET', KEYS[1], 'k', 'o', 'u')
if f[1] ~= KIND then
  return {now, 'kind', f[1] or ''}
end
if ARGV[1] == 'list' then
  local reply = {now, 'found'}
  withdraw_list(KEYS[2], ARGV[2], reply)
  return reply
end
withdraw_strike(KEYS[2], ARGV[2], withdraw_set(3))
if not f[2] or f[3] <= now then
  wake(1, 1, now)
end
return {now, 'struck'}
