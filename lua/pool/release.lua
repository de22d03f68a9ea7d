-- uses pool/shared, core/end_attempt
-- Takes permits back: of each hold all but those that it may keep. Release, undo of an abandoned
-- acquire, and leave of a waiter are the same operation.
--
-- KEYS  1 K, 2 D, 3 Q, 4 L; all but the first optional (a slot on the move), then nobody is
--       notified; see shared.lua
-- ARGV  1 kind      of the pool
--       2 attempt   whose holds these are, and whose acquire this undoes; '' if the sender is
--                   another client, or passes no grants on to its own waiters
--       3 void      last ms at which a request of the acquire may act; '' for a hold that was
--                   delivered after an answer to each request
--       4 keep      ms a key without a size is kept
--       5 waiter    the queue's member to remove, or ''
--       6 left      permits that each hold may keep
--       7 forgotten permits of each hold that are gone for good, since it began; the size falls by
--         them, once
--       8.. holds, 1000 at most
-- Reply {now, verdict, left, …}   two items per hold; left = permits that it has; then three
--                items for each waiter that got permits: `granted`, its attempt, and
--                `g<nonce>.<number>.<ends>.0`. A waiter of the attempt's client gets no message.
--                To a repeated release two items for each grant to this client that nobody has
--                confirmed, among 16 holds: `holds`, its attempt
--       released  this call took permits back
--       already   the hold had no more than it may keep, or its client has withdrawn it
--       expired   its lease was over, and all of it is back
--       gone      the hold is unknown
--       kind      the name is of another kind
-- Cost  O(holds · log n): TIME, HMGET, 2 HDEL, HSET, ZREM; of a waiter + ZREM; with waiters +
--       ZRANGE, ZSCORE, and a PUBLISH for each notified one, 16 at most; for each that gets permits
--       also HGET, and once ZADD; with `void` + HDEL, HSET; of a repeated one + ZRANGE, HMGET of 16
--       holds.
--
-- Needs no `act_before`: a hold's name is never used again, the permits that it may keep only fall,
-- and the forgotten ones only rise. These requests may come late, repeatedly, and in any order.
-- Begins with HDEL, which a full server accepts.
local call = redis.call
local time = call('TIME')
local micros = time[1] .. string.sub('00000' .. time[2], -6)
local now = string.sub(micros, 1, 13)
local k, d, q, l = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local keeps, forgotten = tonumber(ARGV[6]), tonumber(ARGV[7])
local client = string.match(ARGV[2], '^[^:]+')

local fields = {'k', 's', 'c', 'n', 'y', 'v', 'e', 'r', 'u'}
for i = 8, #ARGV do
  fields[i + 2] = 'h:' .. ARGV[i]
end
local f = call('HMGET', k, unpack(fields))
local reply = {now}
if f[1] and f[1] ~= ARGV[1] then
  for _ = 8, #ARGV do
    reply[#reply + 1], reply[#reply + 2] = 'kind', 0
  end
  return reply
end

local out, size = tonumber(f[3] or 0), tonumber(f[2] or 0)
local over, gone, write = {}, {}, {}
local changed, repeated, seen = false, false, {}
for i = 8, #ARGV do
  local verdict, left = 'gone', 0
  local hold, field = f[i + 2], fields[i + 2]
  if hold and not seen[ARGV[i]] then
    seen[ARGV[i]] = true
    local ends, has, lost = string.match(hold, '^(%d+) (%d+) (%d+)')
    has, lost = tonumber(has), tonumber(lost)
    verdict, left = 'already', has
    if ends <= now then
      verdict, left = 'expired', 0
      lost = forgotten
    elseif has > keeps then
      verdict, left = 'released', keeps
    end
    if left < has or forgotten > lost then
      changed = true
      out = out - has + left
      if forgotten > lost then
        size = math.max(size - forgotten + lost, 0)
        lost = forgotten
      end
      if left == 0 then
        over[#over + 1] = field
        gone[#gone + 1] = ARGV[i]
      else
        write[#write + 1], write[#write + 2] = field, ends .. ' ' .. left .. ' ' .. lost
      end
    end
  end
  repeated = repeated or verdict ~= 'released'
  reply[#reply + 1], reply[#reply + 2] = verdict, left
end
local waiting = f[4] and l
if changed then
  write[#write + 1], write[#write + 2] = 'c', out
  if forgotten > 0 then
    write[#write + 1], write[#write + 2] = 's', size
  end
  pool_end(k, write, over)
  write = {}
  if gone[1] and d then
    call('ZREM', d, unpack(gone))
  end
elseif waiting then
  call('HDEL', k, '')
end

local void, spent = ARGV[3], f[6]
if void ~= '' and void >= now then
  -- Copies of this attempt must not act any more.
  spent = end_attempt(k, spent, ARGV[1], ARGV[2], void, now)
  if not f[2] then
    call('PEXPIRE', k, ARGV[4])
  elseif f[7] and f[7] <= void then
    -- The pool expires before its copies.
    call('PEXPIRE', k, void - now + 1)
  end
end

if ARGV[5] ~= '' and l then
  -- Also without waiters, since places outlive a deleted pool.
  call('ZREM', q, ARGV[5])
end
if waiting then
  local grants = pool_grants(k, now, micros, out, f[9], spent, client)
  pool_serve(k, d, q, l, now, f[5], f[8], size - out, size, write, not f[7] and grants)
  pool_tell(reply, grants.told)
end
if repeated and client and d then
  -- The reply that told of the grants may be lost.
  local unheard = pool_unheard(k, d, now, client, 16, true)
  for i = 1, #unheard do
    reply[#reply + 1], reply[#reply + 2] = 'holds', client .. ':' .. unheard[i]
  end
end
return reply
