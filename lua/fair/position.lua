-- uses fair/kind
-- Returns the number of waiters before one waiter of a fair lock. Writes nothing. This script
-- follows a line that sets KIND.
--
-- KEYS  1 K, 2 Q
-- ARGV  1 address the waiter, `<verb> <channel> <n> <owner>`
-- Reply {now, 'at', before}   before = waiters in front of it; dead ones count until a script
--                             removes them
--       {now, 'none'}         it does not wait
--       {now, 'kind', kind}
-- Cost  O(log waiters): TIME, HGET, ZRANK.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local kind = redis.call('HGET', KEYS[1], 'k')
if kind and kind ~= KIND then
  return {now, 'kind', kind}
end
local rank = redis.call('ZRANK', KEYS[2], ARGV[1])
if rank then
  return {now, 'at', rank}
end
return {now, 'none'}
