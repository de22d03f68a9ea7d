-- Moves the end of holds, each by itself. Never creates a hold and never shortens a lease. Confirms
-- a hold that a release has granted.
--
-- KEYS  1 K
-- ARGV  1 act_before  last server time in ms at which this may act
--       2 kind    of the pool
--       3 lease   ms from now
--       4.. holds, 256 at most
-- Reply {now, verdict, lasts, …}   two items per hold
--       renewed  it lasts for the lease, or for lasts ms if that is not '' (the pool expires)
--       expired  its lease was over
--       gone     the hold is unknown
--       kind     the name is of another kind
--       {now, 'late'}      `act_before` has passed
-- Cost  O(holds): TIME, HMGET, HDEL, HSET.
--
-- Begins with HDEL, which a full server accepts; the HSET after it is then accepted too.
local call = redis.call
local time = call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
if now > ARGV[1] or #ARGV[1] ~= 13 then
  return {now, 'late'}
end

local k = KEYS[1]
local fields = {'k', 'u', 'e'}
for i = 4, #ARGV do
  fields[i] = 'h:' .. ARGV[i]
end
local f = call('HMGET', k, unpack(fields))
local ends = (now + ARGV[3]) .. ''
local lasts = ''
if f[3] and f[3] < ends then
  ends = f[3]
  lasts = ends - now
end
local write = {}
if f[2] and f[2] < ends then
  write[1], write[2] = 'u', ends
end
local reply, renewed = {now}, false
for i = 4, #ARGV do
  local hold = f[i]
  local verdict, left = 'gone', ''
  if f[1] and f[1] ~= ARGV[2] then
    verdict = 'kind'
  elseif hold then
    local before = string.sub(hold, 1, 13)
    if before <= now then
      verdict = 'expired'
    else
      verdict, renewed = 'renewed', true
      if before < ends then
        write[#write + 1], write[#write + 2] = fields[i], ends .. string.match(hold, ' %d+ %d+')
        left = lasts
      elseif before == ends then
        left = lasts
      end
    end
  end
  reply[#reply + 1], reply[#reply + 2] = verdict, left
end
if renewed then
  call('HDEL', k, '')
  if write[1] then
    call('HSET', k, unpack(write))
  end
end
return reply
