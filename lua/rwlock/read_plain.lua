-- uses rwlock/counter, rwlock/fields, rwlock/plain_read, core/begin
-- The plain case of rwlock/read.lua, which describes keys, arguments and replies. This part follows
-- rwlock/plain_read.lua, rwlock/fields.lua and core/begin.lua.
--
-- Leaves `lock`, its fields.
local lock = read_fields(KEYS[1], ARGV[2])
if ARGV[8] == 'r' then
  local now, f = string.sub(began, 1, 13), lock
  local ends = (now + ARGV[4]) .. ''
  local token, serial =
    plain_read(KEYS[1], KEYS[5], f[1], f[2], f[4], f[6], may_wait(f[7], now), f[8], ARGV[2], ARGV[3], ARGV[1], began, ends, ARGV[5])
  if token then
    return now .. ' granted 1 ' .. token .. ' 0  ' .. serial
  end
end

