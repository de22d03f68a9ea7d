-- Lists holds, ordered by their end as the index knows it. Writes nothing.
--
-- KEYS  1 K, 2 D; see shared.lua
-- ARGV  1 kind   of the pool
--       2 from   how many to skip
--       3 count  how many to examine, 256 at most
-- Reply {now, seen, hold, permits, remaining ms, …}
--                seen = number examined, less than count at the end; three items per living hold
--       {now, 'kind', kind}    the name is of another kind
-- Cost  O(log n + count): TIME, HGET, ZRANGE, HMGET.
local call = redis.call
local time = call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local kind = call('HGET', KEYS[1], 'k')
if kind and kind ~= ARGV[1] then
  return {now, 'kind', kind}
end
local ids = call('ZRANGE', KEYS[2], ARGV[2], ARGV[2] + ARGV[3] - 1)
local reply = {now, #ids}
if not ids[1] then
  return reply
end
local fields = {}
for i = 1, #ids do
  fields[i] = 'h:' .. ids[i]
end
local holds = call('HMGET', KEYS[1], unpack(fields))
for i = 1, #ids do
  if holds[i] and string.sub(holds[i], 1, 13) > now and not string.find(holds[i], ' 0 %d+$') then
    local at = #reply
    reply[at + 1] = ids[i]
    reply[at + 2] = tonumber(string.match(holds[i], ' (%d+)'))
    reply[at + 3] = string.sub(holds[i], 1, 13) - now
  end
end
return reply
