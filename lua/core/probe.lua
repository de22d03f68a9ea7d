-- Tries every command of the family's scripts, to find missing rights before they are needed.
--
-- KEYS  1 a key that nobody else uses; it is removed afterwards
-- ARGV  verb, channel, …  where to publish; nothing for a client without messages
-- Reply {now, refusal, …}  the error of each command that was refused
-- Cost  O(1).
local time = redis.call('TIME')
local refused = {time[1] .. string.sub('00000' .. time[2], -6, -4)}
local function try(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    refused[#refused + 1] = select(1, ...) .. ': ' .. reply.err
  end
end

local key = KEYS[1]
try('SET', key, '')
try('GET', key)
try('DEL', key)
try('HSET', key, 'a', '1')
try('HMGET', key, 'a')
try('HGET', key, 'a')
try('HGETALL', key)
try('HSCAN', key, '0')
try('HDEL', key, 'a')
try('ZADD', key, '1', 'a')
try('ZREM', key, 'a')
try('ZADD', key, '1', 'a')
try('ZCOUNT', key, '-inf', '+inf')
try('ZCARD', key)
try('ZRANGE', key, '0', '0')
try('ZRANK', key, 'a')
try('ZSCORE', key, 'a')
try('PTTL', key)
try('ZRANGEBYSCORE', key, '-inf', '+inf')
try('ZREMRANGEBYSCORE', key, '-inf', '0')
try('ZPOPMIN', key)
try('PERSIST', key)
try('PEXPIRE', key, '1')
for i = 1, #ARGV, 2 do
  local verb = ARGV[i]
  if verb == 'PUBLISH' or verb == 'SPUBLISH' then
    try(verb, ARGV[i + 1], '')
  end
end
return refused
