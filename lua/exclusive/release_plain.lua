-- uses exclusive/plain_free
-- The plain entries of exclusive/release.lua, which describes keys, arguments and replies. This
-- part precedes the functions of the other cases, since the server executes their definitions in
-- every call. It follows exclusive/plain_free.lua and a line that sets PARTS.
--
-- Leaves `began`, the server's time in µs, `lines`, the replies so far, and `rest`, the numbers of
-- the other entries. A later entry of the same name is one of `rest` as well. An entry has `width`
-- keys.
local time = redis.call('TIME')
local began = time[1] .. string.sub('00000' .. time[2], -6)
local lines, rest = {}, nil
local width = #KEYS / ((#ARGV - 2) / 5)
do
  local attempts, keep_ms, own, off = ' ' .. ARGV[1], ARGV[2], 3, {}
  local now = string.sub(began, 1, 13)
  local keep, released = (now + keep_ms) .. '', now .. ' released 0'
  for i = 1, #KEYS / width do
    local key, free = KEYS[(i - 1) * width + 1], nil
    if not off[key] then
      -- h attempts, t token, u until, n waiters until
      local f = redis.pcall('HMGET', key, 'h', 't', 'u', 'n')
      free = ARGV[own + 2] == '' and ARGV[own + 3] == '' and not f.err
        and plain_free(key, f[1], f[2], f[3], f[4], attempts .. ARGV[own + 1] .. ' ', ARGV[own + 4], now, keep, keep_ms)
    end
    if free then
      lines[i] = released
    else
      off[key] = true
      rest = rest or {}
      rest[#rest + 1] = i
    end
    own = own + 5
  end
end
if not rest then
  return table.concat(lines, '\n')
end

