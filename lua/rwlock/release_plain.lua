-- uses rwlock/counter, rwlock/fields, rwlock/plain_leave, exclusive/plain_free
-- The plain cases of rwlock/release.lua, which describes keys, arguments and replies. They precede
-- the functions of the other cases, since the server executes their definitions in every call. This
-- part follows rwlock/counter.lua, rwlock/fields.lua, rwlock/plain_leave.lua and
-- exclusive/plain_free.lua.
--
-- Leaves `began`, the server's time in µs, and `lock`, its fields.
local time = redis.call('TIME')
local began = time[1] .. string.sub('00000' .. time[2], -6)
local lock = read_fields(KEYS[1], ARGV[1])
if ARGV[3] == '' and ARGV[5] == '' then
  local now, f, keep = string.sub(began, 1, 13), lock, ARGV[4]
  local keep_until = (now + keep) .. ''
  if ARGV[6] == 'w' then
    local attempts = ' ' .. ARGV[2] .. ' '
    if nobody_reads(f[8]) and plain_free(KEYS[1], f[5], f[4], f[3], may_wait(f[7], now), attempts, ARGV[7], now, keep_until, keep) then
      return now .. ' released 0 1'
    end
  elseif KEYS[5] then
    local count =
      plain_leave(KEYS[1], KEYS[5], may_wait(f[7], now), f[2], f[8], f[13], ARGV[1], ARGV[2], ARGV[7], now, keep_until, keep)
    if count then
      return now .. ' released 0 ' .. (count == 0 and '1' or '0')
    end
  end
end

