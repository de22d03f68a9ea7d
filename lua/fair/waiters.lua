-- uses fair/kind, core/queue
-- Lists waiters of one fair lock in order. Writes nothing. This script follows core/queue.lua.
--
-- KEYS  1 K, 2 Q, 3 L
-- ARGV  1 after   ticket of the last known waiter, or ''
--       2 count   largest number of waiters
-- Reply {now, 'waiters', member, ticket, alive, …}
--                three items per waiter; alive = ms for which it counts as alive, 0 for a dead
--                waiter
--       {now, 'kind', kind}
-- Cost  O(log waiters + count): TIME, HMGET, ZRANGE, ZSCORE for each waiter.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local kind, called = unpack(redis.call('HMGET', KEYS[1], 'k', 'y'))
if kind and kind ~= KIND then
  return {now, 'kind', kind}
end
local from = '-inf'
if ARGV[1] ~= '' then
  from = '(' .. ARGV[1]
end
local reply = {now, 'waiters'}
local found = redis.call('ZRANGE', KEYS[2], from, '+inf', 'BYSCORE', 'LIMIT', 0, ARGV[2], 'WITHSCORES')
for i = 1, #found, 2 do
  local member = found[i]
  local alive = redis.call('ZSCORE', KEYS[3], queue_client(member))
  if alive and queue_is_called(called, member) and string.sub(called, 1, 13) < alive then
    alive = string.sub(called, 1, 13)
  end
  local at = #reply
  reply[at + 1], reply[at + 2] = member, found[i + 1]
  reply[at + 3] = alive and alive > now and alive - now or 0
end
return reply
