-- uses pool/shared, core/withdraw
-- Removes entries of one client's waiters that no longer wait, and notifies those that can be
-- served. This script follows core/withdraw.lua as well.
--
-- KEYS  1 K, 2 D, 3 Q, 4 L; see shared.lua
-- ARGV  1 what    'list' returns the client's waiters, 'strike' removes the named ones
--       2 client  channel of the client, up to a brace
--       3 kind    of the pool
--       4..       numbers of waiters, 1024 at most
-- Reply {now, 'found', number, …}  to 'list': the client's waiters among the first 1024 of Q
--                and those of its attempts that hold by a release and have not confirmed it, 64
--                at most
--       {now, 'struck'}
--                to 'strike': they are removed, and so are such holds; the waiters that can be
--                served were notified, or have their permits, see the reply of pool/release
--       {now, 'kind', kind}        the name is of another kind, or free
-- Cost  O(log n + 1024): TIME, HMGET × 2, ZRANGE, ZREM for each removed one, and O(log n + 256) for
--       notifications and grants.
--
-- Needs no `act_before`: a waiter's number is never used again. Begins with writes that a full
-- server accepts.
local call = redis.call
-- How long the release of a hold that was ended here may be on its way, in ms.
local STRUCK = 10000
local time = call('TIME')
local micros = time[1] .. string.sub('00000' .. time[2], -6)
local now = string.sub(micros, 1, 13)
local k, d, q, l = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local f = call('HMGET', k, 'k', 's', 'c', 'n', 'y', 'r', 'e', 'u', 'v')
if f[1] ~= ARGV[3] then
  return {now, 'kind', f[1] or ''}
end
-- The client is the last part of its channel.
local client = string.match(ARGV[2], '[^:]+$') or ''
if ARGV[1] == 'list' then
  local reply = {now, 'found', unpack(pool_unheard(k, d, now, client, 64))}
  withdraw_list(q, ARGV[2], reply)
  return reply
end
withdraw_strike(q, ARGV[2], withdraw_set(4))
local out, reply = tonumber(f[3] or 0), {now, 'struck'}
local fields = {}
for i = 4, #ARGV do
  fields[i - 3] = 'h:' .. client .. ':' .. ARGV[i]
end
local holds = fields[1] and call('HMGET', k, unpack(fields)) or {}
local write = {}
for i = 1, #fields do
  local hold = holds[i]
  if hold and string.sub(hold, -2) == ' g' and string.sub(hold, 1, 13) > now then
    -- Nobody stands behind the hold. Its release may be on its way, and learns that its permits are
    -- back.
    write[#write + 1], write[#write + 2] = fields[i], (now + STRUCK) .. ' 0 0'
    out = out - string.match(hold, ' (%d+)')
  end
end
if write[1] then
  write[#write + 1], write[#write + 2] = 'c', out
end
if write[1] or f[4] then
  call('HDEL', k, '')
end
if f[4] then
  local size = tonumber(f[2] or 0)
  local grants = pool_grants(k, now, micros, out, f[8], f[9])
  pool_serve(k, d, q, l, now, f[5], f[6], size - out, size, write, not f[7] and grants)
  pool_tell(reply, grants.told)
elseif write[1] then
  call('HSET', k, unpack(write))
end
return reply
