-- uses exclusive/plain_take, core/begin
-- The plain entries of exclusive/acquire.lua, which describes keys, arguments and replies. This
-- part precedes the functions of the other cases, since the server executes their definitions in
-- every call. It follows exclusive/plain_take.lua, core/begin.lua and a line that sets KIND and
-- PARTS.
--
-- Leaves `lines`, the replies so far, and `rest`, the numbers of the other entries. A later entry
-- of the same name is one of `rest` as well. Reads what the plain case needs; the server spends a
-- third of a plain entry on this.
local lines, rest = {}, nil
do
  local now = string.sub(began, 1, 13)
  local client, ttl, own, off = ARGV[2], ARGV[4], 6, {}
  local ends, granted = (now + ARGV[3]) .. '', now .. ' granted 1 '
  for i = 1, (#ARGV - 5) / 4 do
    local key, token = KEYS[(i - 1) * PARTS + 1], nil
    if ARGV[5] == '' and not off[key] then
      -- k kind, o owner, t token, v attempts that may not act, n waiters until
      local f = redis.pcall('HMGET', key, 'k', 'o', 't', 'v', 'n')
      token = not f.err
        and plain_take(key, f[1], f[2], f[3], f[4], f[5], client .. ARGV[own], client .. ARGV[own + 1], ARGV[1], began, ends, ttl)
    end
    if token then
      lines[i] = granted .. token .. ' 0 '
    else
      off[key] = true
      rest = rest or {}
      rest[#rest + 1] = i
    end
    own = own + 4
  end
end
if not rest then
  return table.concat(lines, '\n')
end

