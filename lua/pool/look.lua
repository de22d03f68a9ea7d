-- Shows single holds. Writes nothing.
--
-- KEYS  1 K; see shared.lua
-- ARGV  1 kind   of the pool
--       2.. holds, 256 at most
-- Reply {now, remaining ms, …}   one item per hold, 0 if it is over or unknown
--       {now, 'kind', kind}      the name is of another kind
-- Cost  O(holds): TIME, HMGET.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local fields = {'k'}
for i = 2, #ARGV do
  fields[i] = 'h:' .. ARGV[i]
end
local f = redis.call('HMGET', KEYS[1], unpack(fields))
if f[1] and f[1] ~= ARGV[1] then
  return {now, 'kind', f[1]}
end
local reply = {now}
for i = 2, #ARGV do
  local left = f[i] and string.sub(f[i], 1, 13) - now or 0
  reply[i] = left > 0 and left or 0
end
return reply
