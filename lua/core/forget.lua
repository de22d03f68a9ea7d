-- uses core/act_before
-- Removes the record of a name that nobody uses, so that the name may become an object of another
-- kind. A tool of administrators. This script follows core/act_before.lua.
--
-- KEYS  1 K, then the parts that a kind may have: 2 q, 3 l, 4 r, 5 d, 6 o, 7 p
-- ARGV  1 act_before  last server time in ms at which this may act
--       2 kind  the field k that the caller saw
-- Reply {now, 'forgotten'}    the record is removed
--       {now, 'unset'}        there is none
--       {now, 'held'}         somebody holds it
--       {now, 'waited'}       somebody may wait for it
--       {now, 'set'}          a latch that is not deleted, or a job: its own operations end it
--       {now, 'early', ms}    ask again then: late copies of earlier requests may still come, the
--                             last token is ahead of the clock, or a rate limiter has a debt
--       {now, 'late'}         `act_before` has passed
--       {now, 'kind', kind}   the name is of another kind than the caller saw, or of an unknown one
-- Cost  O(fields of K): TIME, HMGET, ZCARD × 2, PTTL × 2, HGETALL, DEL.
--
-- The next token is the server's time. It is greater than the last one, since the record of a token
-- that is ahead of the clock stays. So does a record by which copies of attempts are refused.
-- Begins with DEL, which a full server accepts.
local call = redis.call
local key = KEYS[1]
-- token is that of a lock, or the last operation of a latch; left and expires are a latch's.
local kind, owner, ends, token, g, waiters, spent, left, expires =
  unpack(call('HMGET', key, 'k', 'o', 'u', 't', 'g', 'n', 'v', 'c', 'e'))
if not kind then
  return {now, 'unset'}
elseif kind ~= ARGV[2] then
  return {now, 'kind', kind}
end

local locks = {['lock:1'] = 1, ['fair:1'] = 1, ['rw:1'] = 1, ['election:1'] = 1, ['fair_election:1'] = 1}
local pools = {['semaphore:1'] = 1, ['permits:1'] = 1}
if kind == 'latch:1' then
  if left and (not expires or expires == '' or expires > now) then
    return {now, 'set'}
  end
elseif kind == 'once:1' then
  return {now, 'set'}
elseif kind == 'limit:1' then
  return {now, 'early', call('PTTL', key)}
elseif locks[kind] then
  if owner and ends > now then
    return {now, 'held'}
  end
elseif not pools[kind] then
  return {now, 'kind', kind}
end

-- Read holds, r<owner>, end in f when they were ended by force. Holds of permits are h:<hold>.
local fields = call('HGETALL', key)
for i = 1, #fields, 2 do
  local field, hold = fields[i], fields[i + 1]
  local of_reader = kind == 'rw:1' and string.find(field, '^r.') and string.sub(hold, 49, 49) ~= 'f'
  local of_permits = pools[kind] and string.find(field, '^h:')
  if (of_reader or of_permits) and string.sub(hold, 1, 13) > now then
    return {now, 'held'}
  end
end
if waiters and waiters > now and call('ZCARD', KEYS[2]) + call('ZCARD', KEYS[4]) > 0 then
  return {now, 'waited'}
end

-- Copies of no attempt come after those of the first on record. The ids of operations end with
-- their keys.
local wait = 0
local copies = spent and string.sub(spent, 1, 13)
if copies and copies >= now then
  wait = copies - now + 1
end
for i = 6, 7 do
  wait = math.max(wait, call('PTTL', KEYS[i]))
end
for _, stamp in ipairs({token, g}) do
  if stamp and stamp >= micros then
    wait = math.max(wait, math.ceil((stamp - micros) / 1000) + 1)
  end
end
if wait > 0 then
  return {now, 'early', wait}
end
call('DEL', key, KEYS[2], KEYS[3], KEYS[4], KEYS[5])
return {now, 'forgotten'}
