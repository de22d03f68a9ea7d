-- Removes entries of one client's waiters that no longer wait, and notifies those that can be
-- served. This script follows core/withdraw.lua as well.
--
-- KEYS  1 K, 2 D, 3 Q, 4 L; see shared.lua
-- ARGV  1 what    'list' returns the client's waiters, 'strike' removes the named ones
--       2 client  channel of the client, up to a brace
--       3 kind    of the pool
--       4..       numbers of waiters, 1024 at most
-- Reply {now, 'found', number, …}  to 'list': the client's waiters among the first 1024 of Q
--       {now, 'struck'}
--                to 'strike': they are removed; the waiters that can be served were notified
--       {now, 'kind', kind}        the name is of another kind, or free
-- Cost  O(log n + 1024): TIME, HMGET, ZRANGE, ZREM for each removed one, and O(log n + 16) for
--       notifications.
--
-- Needs no `act_before`: a waiter's number is never used again. Begins with writes that a full
-- server accepts.
local call = redis.call
local time = call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local k, q, l = KEYS[1], KEYS[3], KEYS[4]
local f = call('HMGET', k, 'k', 's', 'c', 'n', 'y', 'r')
if f[1] ~= ARGV[3] then
  return {now, 'kind', f[1] or ''}
end
if ARGV[1] == 'list' then
  local reply = {now, 'found'}
  withdraw_list(q, ARGV[2], reply)
  return reply
end
withdraw_strike(q, ARGV[2], withdraw_set(4))
if f[4] then
  local size = tonumber(f[2] or 0)
  call('HDEL', k, '')
  pool_serve(k, q, l, now, f[5], f[6], size - tonumber(f[3] or 0), size, {})
end
return {now, 'struck'}
