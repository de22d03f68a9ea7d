-- uses rwlock/state
-- Lists read holds of one read-write lock, a step at a time. Writes nothing.
--
-- KEYS  1 K, see rwlock/state.lua
-- ARGV  1 cursor  '0' to begin, then as replied
-- Reply {now, 'holds', cursor, …}
--                '0' at the end; five items per live hold: owner, count, serial, token, ms left,
--                kind ('r' or 'u', in capitals if renewal is forbidden); a hold that lasts
--                throughout is listed at least once
--       {now, 'kind', kind}
-- Cost  O(1) per hold: TIME, HGET, HSCAN of about 256 fields.
local time = call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6, -4)
local key = KEYS[1]
local kind = call('HGET', key, 'k')
if kind and kind ~= 'rw:1' then
  return {now, 'kind', kind}
end
local page = call('HSCAN', key, ARGV[1], 'MATCH', 'r*', 'COUNT', 256)
local reply = {now, 'holds', page[1]}
for i = 1, #page[2], 2 do
  local owner, hold = string.sub(page[2][i], 2), page[2][i + 1]
  if owner ~= '' and lasts(hold, now) then
    local at = #reply
    reply[at + 1], reply[at + 2], reply[at + 3] = owner, size(string.sub(hold, 50)), string.sub(hold, 15, 30)
    reply[at + 4], reply[at + 5], reply[at + 6] = string.sub(hold, 32, 47), string.sub(hold, 1, 13) - now, string.sub(hold, 49, 49)
  end
end
return reply
