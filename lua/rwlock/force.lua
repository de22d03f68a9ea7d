-- uses rwlock/fields, rwlock/go_on, core/look_again
-- Ends one hold of a read-write lock, at once or by forbidding its renewal.
--
-- KEYS  1 K, 2 Q, 3 R, 4 L, 5 D, see rwlock/state.lua; 2 to 5 optional, then nobody is notified
-- ARGV  1 side    'w' the writer's, 'r' a reader's
--       2 owner   of the reader's hold
--       3 id      token or serial of the hold; a later hold is not touched
--       4 how     'now' ends it; 'after' lets the lease run out
--       5 keep    ms the token is kept after the last hold
--       6 channels  the beginning of the channel of each client, see core/look_again.lua
-- Reply {now, 'done', idle}  the hold is ended, or will end with its lease; idle = 1 if no hold is
--                            known; with a grant as rwlock/release
--       {now, 'already'}   it was forced before
--       {now, 'gone'}      no living hold has this name
--       {now, 'kind', kind}
-- Cost  O(log n): TIME, HMGET, HDEL, HSET, PEXPIRE, PUBLISH, for a reader ZCARD and ZADD; with
--       waiters as rwlock/release.
--
-- Begins with HDEL, which a full server accepts.
local time = call('TIME')
local micros = time[1] .. string.sub('00000' .. time[2], -6)
local now = string.sub(micros, 1, 13)
local key, id, how = KEYS[1], ARGV[3], ARGV[4]
local s = look(key, read_fields(key, ARGV[2]))
if s.kind and s.kind ~= 'rw:1' then
  return {now, 'kind', s.kind}
end
local changed

if ARGV[1] == 'w' then
  local forced = call('HGET', key, 'f')
  if not s.writer or s.ends <= now or s.token ~= id then
    return {now, forced == id and 'already' or 'gone'}
  end
  call('HDEL', key, '')
  call('HSET', key, 'f', id)
  if how == 'now' then
    -- The hold is over, by the clock of any server. Its owner field stays, so that its release and
    -- the next holder learn how it ended.
    call('HSET', key, 'u', OVER)
    s.ends, changed = OVER, true
  end
else
  local hold = s.own
  local kind = hold and string.sub(hold, 15, 30) == id and string.sub(hold, 49, 49)
  if kind == 'f' then
    return {now, 'already'}
  elseif not kind or string.sub(hold, 1, 13) <= now then
    return {now, 'gone'}
  elseif how == 'after' and (kind == 'R' or kind == 'U') then
    return {now, 'already'}
  end
  call('HDEL', key, '')
  if how == 'now' then
    -- It stays as a note for its owner until its lease would have ended; D has that time from now
    -- on.
    if KEYS[5] then
      mend(s, KEYS[5])
      call('ZADD', KEYS[5], string.sub(hold, 1, 13), ARGV[2])
    end
    s.count = s.count - 1
    call('HSET', key, 'r' .. ARGV[2], now .. string.sub(hold, 14, 48) .. 'f' .. string.sub(hold, 50), 'c', counter(s))
    if s.upgradable == ARGV[2] then
      call('HDEL', key, 'g')
      s.upgradable = false
    end
    changed = true
  else
    call('HSET', key, 'r' .. ARGV[2], string.sub(hold, 1, 48) .. string.upper(kind) .. string.sub(hold, 50))
  end
end

look_again(ARGV[6], ARGV[1] == 'w' and s.writer or ARGV[2], key)
if changed then
  if s.flag and s.flag > now and KEYS[2] then
    local given, grant = go_on(s, KEYS[2], KEYS[3], KEYS[4], KEYS[5], now, micros, ARGV[1] == 'w')
    if given then
      return {now, 'done', 0, 'granted', given, grant}
    end
  elseif is_idle(s, now) then
    call('PEXPIRE', key, ARGV[5])
  end
end
return {now, 'done', is_idle(s, now) and 1 or 0}
