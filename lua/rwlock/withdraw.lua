-- uses rwlock/fields, rwlock/ends, rwlock/go_on, core/withdraw
-- Removes entries of one client's waiters that no longer wait, and notifies those that may enter.
-- This script follows core/withdraw.lua as well.
--
-- KEYS  1 K, 2 Q, 3 R, 4 L, 5 D, see rwlock/state.lua
-- ARGV  1 what    'list' returns the client's waiters, 'strike' removes the named ones
--       2 client  channel of the client, up to a brace
--       3..       numbers of waiters, 1024 at most
-- Reply {now, 'found', number, …}
--                to 'list': the client's waiters among the first 1024 of Q and of R, one that
--                waits to upgrade, and the one to which a release gave the lock, until its holder
--                has confirmed it
--       {now, 'struck'}
--                to 'strike': they are removed, and so is such a hold; the waiters that may enter
--                were notified; with a grant as rwlock/release
--       {now, 'kind', kind}        the name is of another kind, or free
-- Cost  O(log n + 1024): TIME, HMGET, HGET, ZRANGE, ZREM for each removed one, and the cost of a
--       release with notifications.
--
-- Needs no `act_before`: a waiter's number is never used again. Begins with writes that a full
-- server accepts.
local time = call('TIME')
local micros = time[1] .. string.sub('00000' .. time[2], -6)
local now = string.sub(micros, 1, 13)
local key, writers, readers, clients, index = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local s = look(key, read_fields(key, ''))
if s.kind ~= 'rw:1' then
  return {now, 'kind', s.kind or ''}
end
local upgrader = s.upgrader and withdraw_number(string.sub(s.upgrader, 15), ARGV[2])
local p = s.writer and s.ends > now and call('HGET', key, 'p')
local given = give_unconfirmed(p, s.token)
local client = given and string.match(s.writer, '^[^:]*')
if given and string.sub(ARGV[2], -#client) ~= client then
  given = nil
end
if ARGV[1] == 'list' then
  local reply = {now, 'found'}
  reply[#reply + 1] = upgrader or nil
  reply[#reply + 1] = given
  withdraw_list(writers, ARGV[2], reply)
  withdraw_list(readers, ARGV[2], reply)
  return reply
end
local gone = withdraw_set(3)
withdraw_strike(writers, ARGV[2], gone)
withdraw_strike(readers, ARGV[2], gone)
if upgrader and gone[upgrader] then
  call('HDEL', key, 'x')
  s.upgrader = false
end
local ended = given and gone[given]
if ended then
  end_unheard(s, string.sub(p, 18, 18) == '1' and ' - ')
end
if s.flag and s.flag > now then
  call('HDEL', key, '')
  local attempt, grant = go_on(s, writers, readers, clients, index, now, micros, ended)
  if attempt then
    return {now, 'struck', 'granted', attempt, grant}
  end
  call_batch_reader(s, readers, clients, now)
end
return {now, 'struck'}
