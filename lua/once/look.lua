-- uses once/shared
-- Shows a job. This script follows once/shared.lua. Writes nothing.
--
-- KEYS  1 K; see once/shared.lua
-- ARGV  1 slot    `=<key>` to show that slot as well, or ''
-- Reply {now, 'job', t, z, l, e, w, p, f, u, o, c, b, i, s, record}
--                the fields of once/shared.lua, '' where there is none; record = that of the slot
--       {now, 'kind', kind}   the name is of another kind
-- Cost  O(1): TIME, HMGET; with a slot HGET.
local time = call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local f = call('HMGET', KEYS[1], 'k', 't', 'z', 'l', 'e', 'w', 'p', 'f', 'u', 'o', 'c', 'b', 'i', 's')
if f[1] ~= KIND and f[1] then
  return {now, 'kind', f[1]}
end
local reply = {now, 'job'}
for i = 2, 14 do
  reply[1 + i] = f[i] or ''
end
local record
if ARGV[1] ~= '' then
  local ends, known = string.match(call('HGET', KEYS[1], 'd:' .. ARGV[1]) or '', '^(%d+) (.*)$')
  record = ends and ends > now and known
end
reply[#reply + 1] = record or ''
return reply
