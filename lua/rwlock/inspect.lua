-- uses rwlock/fields, rwlock/state
-- Shows one read-write lock, and the holds of one owner. Writes nothing.
--
-- KEYS  1 K, 2 Q, 3 R, 4 L, 5 D, see rwlock/state.lua
-- ARGV  1 owner   whose holds are counted, or ''
-- Reply {now, 'state', token, writer, count, remaining, readers, upgradable, waiting writers,
--        waiting readers, own writes, own reads}
--                token = the last write's, or ''; writer = owner or '', with its attempts and ms
--                left; upgradable = owner or ''; every waiter in Q counts as writer
--       {now, 'kind', kind}
-- Cost  O(log n): TIME, HMGET, ZCARD, ZRANGEBYSCORE and HGET for each of at most 64 that may have
--       ended; beyond those, ended holds count as living.
local time = call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local key, index = KEYS[1], KEYS[5]
local s = look(key, read_fields(key, ARGV[1]))
if s.kind and s.kind ~= 'rw:1' then
  return {now, 'kind', s.kind}
end
if call('ZCARD', index) < s.count then
  -- The index has lost holds, so they are counted one by one.
  s.count = 0
  local fields = call('HGETALL', key)
  for i = 1, #fields, 2 do
    if string.find(fields[i], '^r.') and lasts(fields[i + 1], now) then
      s.count = s.count + 1
    end
  end
else
  for _, owner in ipairs(call('ZRANGEBYSCORE', index, '-inf', now, 'LIMIT', 0, 64)) do
    local hold = call('HGET', key, 'r' .. owner)
    if hold and string.sub(hold, 49, 49) ~= 'f' and string.sub(hold, 1, 13) <= now then
      s.count = s.count - 1
    end
  end
end
local writer, count, left, own = '', 0, 0, 0
if s.writer and s.ends > now then
  writer, count, left = s.writer, size(s.attempts), s.ends - now
  own = writer == ARGV[1] and count or 0
end
local reads = lasts(s.own, now) and size(string.sub(s.own, 50)) or 0
local writers, readers = 0, 0
if s.flag and s.flag > now then
  writers, readers = call('ZCARD', KEYS[2]), call('ZCARD', KEYS[3])
  if upgrading_until(s, now) then
    writers = writers + 1
  end
end
return {now, 'state', s.token or '', writer, count, left, s.count, upgradable_taken(s, now) and s.upgradable or '', writers, readers, own, reads}
