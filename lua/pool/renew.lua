-- entries 32 of 1 key, 1 argument, behind 4
-- Moves the end of n holds, each by itself and of a pool of its own. Never creates a hold and never
-- shortens a lease. Confirms a hold that a release has granted.
--
-- KEYS  1..n      K of each pool, see pool/shared.lua
-- ARGV  1 act_before  last server time in ms at which this may act
--       2 client  the part that all holds have in common
--       3 kind    of the pools
--       4 lease   ms from now
--       5..       for each pool: the hold, `:<n>`, to be appended to the client
-- Reply a text of one line per pool, `<now> <verdict> <lasts>`
--       renewed  it lasts for the lease, or for lasts ms if that is not '' (the pool expires)
--       expired  its lease was over
--       gone     the hold is unknown
--       kind     the name is of another kind
--       {now, 'late'}  `act_before` has passed, for all entries
-- Cost  O(n): TIME, and per pool HMGET, HDEL, HSET.
--
-- Begins with HDEL, which a full server accepts; the HSET after it is then accepted too.
local call = redis.call
local time = call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
if now > ARGV[1] or #ARGV[1] ~= 13 then
  return {now, 'late'}
end
local client, kind = ARGV[2], ARGV[3]
local span = (now + ARGV[4]) .. ''

-- Returns the verdict, and the rest in ms if the pool ends before the lease would.
local function renew(k, field)
  -- k kind, u latest end, e end of the pool
  local f = call('HMGET', k, 'k', 'u', 'e', field)
  local hold, ends, lasts = f[4], span, ''
  if f[3] and f[3] < ends then
    ends = f[3]
    lasts = ends - now
  end
  if f[1] and f[1] ~= kind then
    return 'kind', ''
  elseif not hold then
    return 'gone', ''
  end
  local before = string.sub(hold, 1, 13)
  if before <= now then
    return 'expired', ''
  end
  call('HDEL', k, '')
  local write = {}
  if f[2] and f[2] < ends then
    write[1], write[2] = 'u', ends
  end
  if before < ends then
    write[#write + 1], write[#write + 2] = field, ends .. string.match(hold, ' %d+ %d+')
  end
  if write[1] then
    call('HSET', k, unpack(write))
  end
  return 'renewed', before <= ends and lasts or ''
end

local lines = {}
for i = 1, #KEYS do
  local verdict, lasts = renew(KEYS[i], 'h:' .. client .. ARGV[i + 4])
  lines[i] = now .. ' ' .. verdict .. ' ' .. lasts
end
return table.concat(lines, '\n')
