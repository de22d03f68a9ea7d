-- uses exclusive/plain_take, core/begin
-- The plain case of exclusive/acquire.lua, which describes keys, arguments and replies. This part
-- follows exclusive/plain_take.lua, core/begin.lua and a line that sets KIND and PARTS.
--
-- Leaves `only`: if the call is about one name, its fields.
local only
if #KEYS == PARTS then
  local now = string.sub(began, 1, 13)
  local f = redis.call('HMGET', KEYS[1], 'k', 'o', 't', 'u', 'v', 'n', 'y', 'p')
  local ends = (now + ARGV[4]) .. ''
  local token = plain_take(KEYS[1], f[1], f[2], f[3], f[5], f[6], ARGV[2], ARGV[3], ARGV[1], began, ends, ARGV[5])
  if token then
    return now .. ' granted 1 ' .. token .. ' 0 '
  end
  only = f
end

