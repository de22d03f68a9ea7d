-- uses rwlock/kind, rwlock/counter, exclusive/plain_take, core/begin
-- The plain entries of rwlock/write.lua, which describes keys, arguments and replies. This part
-- precedes the functions of the other cases, since the server executes their definitions in every
-- call. It follows rwlock/kind.lua, rwlock/counter.lua, exclusive/plain_take.lua and
-- core/begin.lua.
--
-- Leaves `lines`, the replies so far, and `rest`, the numbers of the other entries. A later entry
-- of the same lock is one of `rest` as well.
local lines, rest = {}, nil
do
  local now = string.sub(began, 1, 13)
  local client, ttl, own, off = ARGV[2], ARGV[4], 5, {}
  local ends, granted = (now + ARGV[3]) .. '', now .. ' granted 1 '
  for i = 1, #KEYS / 5 do
    local key, token = KEYS[5 * i - 4], nil
    if ARGV[own + 4] == '' and not off[key] then
      -- k kind, o writer, t token, v attempts that may not act, n waiters until, c counter
      local f = redis.pcall('HMGET', key, 'k', 'o', 't', 'v', 'n', 'c')
      if not f.err and nobody_reads(f[6]) then
        local owner, attempt, waiters = client .. ARGV[own], client .. ARGV[own + 1], may_wait(f[5], now)
        token = plain_take(key, f[1], f[2], f[3], f[4], waiters, owner, attempt, ARGV[1], began, ends, ttl)
      end
    end
    if token then
      lines[i] = granted .. token .. ' 0  ' .. token
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

