-- uses rwlock/kind, rwlock/counter, rwlock/fields, exclusive/plain_take, core/begin
-- The plain case of rwlock/write.lua, which describes keys, arguments and replies. This part
-- follows rwlock/kind.lua, rwlock/counter.lua, rwlock/fields.lua, exclusive/plain_take.lua and
-- core/begin.lua.
--
-- Leaves `lock`, its fields.
local lock = read_fields(KEYS[1], ARGV[2])
if ARGV[8] == '' and nobody_reads(lock[8]) then
  local now, f = string.sub(began, 1, 13), lock
  local ends = (now + ARGV[4]) .. ''
  local waiters = may_wait(f[7], now)
  local token =
    plain_take(KEYS[1], f[1], f[2], f[4], f[6], waiters, ARGV[2], ARGV[3], ARGV[1], began, ends, ARGV[5])
  if token then
    return now .. ' granted 1 ' .. token .. ' 0  ' .. token
  end
end

