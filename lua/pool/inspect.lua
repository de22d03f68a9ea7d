-- uses pool/shared
-- Shows the number of permits, and the number given out, after the removal of expired holds.
--
-- KEYS  1 K, 2 D, 3 Q, 4 L; see shared.lua
-- ARGV  1 kind   of the pool
--       2 size   default size of a pool without one, or ''
-- Reply {now, 'set', size, out, waiters, ends}
--                waiters = members of the queue, dead ones too; ends = ms until the pool expires,
--                or ''
--       {now, 'unset'}         the size is not set
--       {now, 'more'}          too much to remove in one call: ask again at once
--       {now, 'kind', kind}    the name is of another kind
-- Cost  O(log n): TIME, HMGET, ZRANGEBYSCORE, ZCARD, and the removal of expired holds.
local call = redis.call
local time = call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local k, d, q, l = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local f = call('HMGET', k, 'k', 's', 'c', 'n', 'y', 'e', 'r')
if f[1] and f[1] ~= ARGV[1] then
  return {now, 'kind', f[1]}
elseif not f[2] or f[6] and f[6] <= now then
  if ARGV[2] == '' then
    return {now, 'unset'}
  end
  return {now, 'set', tonumber(ARGV[2]), 0, 0, ''}
end
local size = tonumber(f[2])
local out, more, freed = reap(k, d, now, tonumber(f[3] or 0))
local waiters = call('ZCARD', q)
if f[4] and freed then
  pool_serve(k, d, q, l, now, f[5], f[7], size - out, size, {})
end
if more then
  return {now, 'more'}
end
return {now, 'set', size, out, waiters, f[6] and f[6] - now or ''}
