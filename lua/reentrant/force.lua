-- Ends the hold with this token whoever has it, at once or by forbidding its renewal.
--
-- KEYS  1 K, 2 Q (may be left out, then nobody is woken)
-- ARGV  1 token   the hold that is meant; a later one is not touched
--       2 how     'now' frees the name; 'after' lets the lease run out
--       3 keep    ms the token is kept once the name is free
-- Reply {now, 'done'}      the hold is ended, or will end with its lease
--       {now, 'already'}   it was forced before
--       {now, 'gone'}      no live hold has this token
--       {now, 'kind', kind}
-- Cost  O(1): TIME, HMGET, HDEL, HSET, PEXPIRE; with waiters + ZREMRANGEBYSCORE, ZPOPMIN, PUBLISH and O(dead waiters).
--
-- Begins with HDEL, which a full server takes.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local key, queue, token = KEYS[1], KEYS[2], ARGV[1]
local f = redis.call('HMGET', key, 'k', 'o', 't', 'u', 'f', 'n')
if f[1] and f[1] ~= 'lock:1' then
  return {now, 'kind', f[1]}
end
local live = f[2] and f[4] > now and f[3] == token
if not live then
  return {now, f[5] == token and 'already' or 'gone'}
end
if ARGV[2] == 'after' then
  redis.call('HDEL', key, 'f')
  redis.call('HSET', key, 'f', token)
  return {now, 'done'}
end

-- The hold is over from now on; its owner stays, so that its release and the next holder learn how it ended.
redis.call('HDEL', key, '')
redis.call('HSET', key, 'u', now, 'f', token)
redis.call('PEXPIRE', key, ARGV[3])
if f[6] and queue then
  redis.call('ZREMRANGEBYSCORE', queue, '-inf', now)
  local first = redis.call('ZPOPMIN', queue)
  if first[1] then
    local verb, channel = string.match(first[1], '^(%u+) (%S+)')
    redis.pcall(verb, channel, key)
  else
    redis.call('HDEL', key, 'n')
  end
end
return {now, 'done'}
