-- uses exclusive/plain_free
-- The plain case of exclusive/release.lua, which describes keys, arguments and replies. It precedes
-- the functions of the other cases, since the server executes their definitions in every call. This
-- part follows exclusive/plain_free.lua.
--
-- Leaves `began`, the server's time in µs, and `only`: if the call is about one name, its fields.
local time = redis.call('TIME')
local began = time[1] .. string.sub('00000' .. time[2], -6)
local only
if #ARGV == 6 then
  local now = string.sub(began, 1, 13)
  local f = redis.call('HMGET', KEYS[1], 'k', 'o', 'h', 't', 'u', 'n', 'y')
  if ARGV[3] == '' and ARGV[5] == '' then
    local attempts, keep = ' ' .. ARGV[2] .. ' ', ARGV[4]
    if plain_free(KEYS[1], f[3], f[4], f[5], f[6], attempts, ARGV[6], now, (now + keep) .. '', keep) then
      return now .. ' released 0'
    end
  end
  only = f
end

