-- Strikes out waiters of one client that wait no longer, and lets the next one come. Goes behind the kind.lua of its kind, which has KIND and `wake`,
-- and core/withdraw.lua.
--
-- KEYS  1 K, then the indexes of its waiters, first Q
-- ARGV  1 what    'list' tells which waiters the client has, 'strike' strikes out those that are named
--       2 client  channel of the client, up to a brace
--       3..       numbers of waiters, 1024 at most
-- Reply {now, 'found', number, …}  to 'list': the client's waiters, those among the first 1024 in Q
--       {now, 'struck'}            to 'strike': they wait no longer; if the name is free, the next waiter was called
--       {now, 'kind', kind}        the name is something else, or nothing
-- Cost  O(log n + 1024): TIME, HMGET, ZRANGE, ZREM for each that is struck out, and what waking one costs, see the kind.
--
-- Needs no `by`: a waiter's number is never used again. Begins with writes that a full server takes.
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
