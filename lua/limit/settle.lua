-- uses core/begin, limit/shared, core/entries
-- entries 16 of 1 key, 7 arguments, behind 3
-- Adds tokens to the cost of a pass, or gives some of them back, each entry by itself. This script
-- follows limit/shared.lua and core/entries.lua.
--
-- KEYS  for each entry K; see shared.lua
-- ARGV  1 act_before, 2 client and 3 keep, as of limit/acquire.lua
--       4..       for each entry:
--         attempt `:<n>`, to be appended to the client, never used twice. A client has one attempt
--                 on a key under way at a time
--         count   and
--         period  the rate of the pass, which applies if K has none
--         cost    of the pass in tokens, 1 or more
--         tokens  to add, or below 0 to give back. The debt stays within two years
--         mark    of the pass, and
--         born    of the pass, or both '', which gives nothing back
-- Reply a text of one line per entry
--       <now> settled <debt>  debt = µs until all tokens are paid
--       <now> void           this attempt has ended
--       <now> kind <kind>    the name is of another kind
--       -<code> <text>       the error of an entry, if there are others
--       {now, 'late'}        `act_before` has passed, for all entries
-- Cost  O(clients of the last `keep` ms): TIME, and per entry HMGET, HDEL, HSET, PEXPIRE.
--
-- Tokens that have been paid are not given back: later passes may have used the time in which they
-- were. The mark says how much of the pass is still to be paid, whatever others have got back.
-- Tokens that others have got back count as paid.
--
-- While passes are taken ahead, only the last of them is given back, and whole: the others count at
-- their times.
-- Begins with HDEL, which a full server accepts.
local micros, now = began, sub(began, 1, 13)
local keep = ARGV[3] + 0
local limit = (now + keep) .. ''

-- Serves entry i. Returns its line.
local function serve(i)
  local own = 7 * i - 3
  local key, attempt = KEYS[i], ARGV[2] .. ARGV[own]
  local cost, tokens, mark = ARGV[own + 3] + 0, ARGV[own + 4] + 0, ARGV[own + 5]
  local line, d, spent, copy = begin(key, attempt, limit, now)
  if line then
    return line
  end
  local clock, debt, part, count, period, back, turn, since, shift, born = read(d, micros)
  count, period = count or ARGV[own + 1], period or ARGV[own + 2]
  if not copy then
    if tokens > 0 then
      debt, part = charge(debt, part, tokens, count + 0, period)
      debt = min(debt, 2 * LONGEST)
    elseif born == ARGV[own + 6] and (turn == '0' or tokens == -cost and mark + 0 == clock + debt + shift) then
      -- A part of a µs is not given back.
      local less = max(min(span(-tokens, count, period), mark - shift - clock, debt), 0)
      debt, shift = debt - less, shift + less
      local ends = format('%.0f', clock + debt)
      turn = ends < turn and ends or turn
    end
    call('HDEL', key, '')
    d = state(clock, debt, part, count, period, back, turn, since, shift, born)
    call('HSET', key, 'k', 'limit:1', 'd', d, 'v', spent)
    call('PEXPIRE', key, life(debt, keep))
  end
  return now .. ' settled ' .. whole(debt, part)
end

return entries_serve(#KEYS, serve)
