-- uses once/shared, core/act_before
-- Forgets all records of a job, so that its slots are open again. A run that is under way goes on,
-- and records its outcome. This script follows once/shared.lua and core/act_before.lua.
--
-- KEYS  1 K; see once/shared.lua
-- ARGV  1 act_before  last server time in ms at which this may act
--       2 op      `<client>:<n>`, never used twice
--       3 seen    `<t> <1 if there was a claim, else 0>`, the state that the caller saw
--       4 reset   field z as the caller saw it, or ''
-- Reply {now, 'reset'}        this call, an earlier copy, or another reset since the caller looked,
--                             forgot the records
--       {now, 'unset'}        there is no job
--       {now, 'moved'}        a run has begun or ended since the caller looked: look again
--       {now, 'late'}         `act_before` has passed
--       {now, 'kind', kind}   the name is of another kind
-- Cost  O(remembered slots, at most 1,000): TIME, HMGET, HGETALL, HDEL for each 64 fields, HSET.
--
-- A late copy forgets nothing that was recorded after its caller looked, since a record needs a
-- claim, and each claim has a new token. Begins with HDEL, which a full server accepts.
local key, op = KEYS[1], ARGV[2]
local kind, last, holder, reset = unpack(call('HMGET', key, 'k', 't', 'o', 'z'))
if kind ~= KIND and kind then
  return {now, 'kind', kind}
elseif not last then
  return {now, 'unset'}
elseif (reset or '') ~= ARGV[4] then
  return {now, 'reset'}
elseif last .. ' ' .. (holder and '1' or '0') ~= ARGV[3] then
  return {now, 'moved'}
end
call('HDEL', key, 'l', 'e', 'w', 'p', 'f', 'y')
local fields = call('HGETALL', key)
local gone = {}
for i = 1, #fields, 2 do
  if string.sub(fields[i], 1, 2) == 'd:' then
    gone[#gone + 1] = fields[i]
  end
  if #gone == 64 or i > #fields - 2 and gone[1] then
    call('HDEL', key, unpack(gone))
    gone = {}
  end
end
call('HSET', key, 'z', op)
return {now, 'reset'}
