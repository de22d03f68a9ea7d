-- uses rwlock/fields, rwlock/let_read, rwlock/ends, rwlock/go_on, core/act_before
-- Turns a writer into a reader, in one step: admits its owner as a reader and ends the write of one
-- attempt. This script follows core/act_before.lua as well.
--
-- KEYS  1 K, 2 Q, 3 R, 4 L, 5 D, see rwlock/state.lua
-- ARGV  1 act_before  last server time in ms at which this may act
--       2 owner   the writer, `<client>:<n>`
--       3 attempt of the read, `<client>:<n>`, never used twice
--       4 lease   ms
--       5 ttl     ms, lease + retention of the token
--       6 attempt of the write, which ends
--       7 token   of the write
--       8 void    last ms at which a copy of the write's acquire may act, or '' without copies
-- Reply a text of one line, as for an entry of rwlock/read
--       <now> granted <count> <token> <abandoned> <lasts> <serial>
--       <now> lost <cause>   the write is over: expired, taken, revoked, gone
--       <now> void
--       <now> kind <kind>
--       {now, 'late'}
-- Cost  O(log n): as rwlock/read and rwlock/release together.
local key, index = KEYS[1], KEYS[5]
local owner, attempt, ttl, id = ARGV[2], ARGV[3], ARGV[5], ARGV[7]

local s = look(key, read_fields(key, owner))
local held = lasts(s.own, now) and string.sub(s.own, 50)
local refusal = refused(s, attempt, ARGV[1], now, held, nil, '')
if refusal then
  return refusal
end
local writes = s.writer == owner and s.ends > now and s.token == id
-- An earlier copy, or an attempt whose answer came too late, has run; nobody has written since.
local reads = lasts(s.own, now) and string.sub(s.own, 32, 47) == id and s.token == id
if not (writes or reads) then
  if s.token and s.token > id then
    return now .. ' lost taken'
  elseif call('HGET', key, 'f') == id then
    return now .. ' lost revoked'
  end
  return now .. ' lost ' .. (s.token == id and 'expired' or 'gone')
end

local count, token, abandoned, short, serial = let_read(s, index, now, micros, owner, attempt, ARGV[4], ttl, 'r')
if ARGV[8] >= now then
  mark_void(s, ARGV[6], ARGV[8], now)
end
if writes and string.find(s.attempts, ' ' .. ARGV[6] .. ' ', 1, true) and end_write(s, ARGV[6], now) and s.flag and s.flag > now then
  go_on(s, KEYS[2], KEYS[3], KEYS[4], index, now, nil, true)
end
return now .. ' granted ' .. count .. ' ' .. token .. ' ' .. abandoned .. ' ' .. short .. ' ' .. serial
