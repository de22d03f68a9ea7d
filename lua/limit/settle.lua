-- uses core/begin, limit/shared, core/entries
-- entries 16 of 1 key, 10 arguments, behind 3
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
--         from, left, born and turn
--                 of the pass, or all '', which gives nothing back. mark = from + left
--         wait    of the pass, which counts at from + wait
-- Reply a text of one line per entry
--       <now> settled <debt>  debt = µs until all tokens are paid
--       <now> void           this attempt has ended
--       <now> kind <kind>    the name is of another kind
--       -<code> <text>       the error of an entry, if there are others
--       {now, 'late'}        `act_before` has passed, for all entries
-- Cost  O(clients of the last `keep` ms): TIME, and per entry HMGET, HDEL, HSET, and now
--       and then PEXPIRE. While passes are ahead also HGET, and HSET or HDEL.
--
-- Tokens that have been paid are not given back: later passes may have used the time in which they
-- were. The mark says how much of the pass is still to be paid, whatever others have got back.
-- Tokens that others have got back count as paid.
--
-- While passes are taken ahead, only the last of them is given back, and whole: the others count at
-- their times. If another one of them is not used, its turn is free for the next waiter. Free turns
-- that are last then are given back, too.
-- Begins with HDEL, which a full server accepts.

local function earlier(one, other)
  return one < other and one or other
end

-- Gives back the free turns that are the last ones ahead. `start` + `debt` is the mark of the last.
-- Returns the debt, its part and the turn.
local function give_back_free(free, start, debt, part, turn, count, period)
  local at = #free
  while at > 0 do
    local _, cost, mark, before = unpack(free[at])
    local less, parts = span(cost + 0, count, period)
    if mark + 0 == start + debt and (debt > less or debt == less and part >= parts) then
      debt, part = subtract(debt, part, less, parts, count + 0)
      turn = earlier(before, turn)
      table.remove(free, at)
      at = #free + 1
    end
    at = at - 1
  end
  return debt, part, turn
end

local function has_mark(free, mark)
  for _, turn in ipairs(free) do
    if turn[3] == mark then
      return true
    end
  end
  return false
end

-- Serves entry i. Returns its line.
local function serve(i)
  local own = 10 * i - 6
  local key = KEYS[i]
  local cost, tokens = ARGV[own + 3] + 0, ARGV[own + 4] + 0
  local line, old, spent, others, copy = begin(key, ARGV[own])
  if line then
    return line
  end
  local clock, debt, part, count, period, born, ends, back, turn, since, shift = read(old)
  count, period = count or ARGV[own + 1], period or ARGV[own + 2]
  local free
  if not copy then
    if tokens > 0 then
      local more, parts = span(tokens, count, period)
      debt, part = add(debt, part, more, parts, count + 0)
      debt = min(debt, 2 * LONGEST)
    elseif born == ARGV[own + 7] then
      local mark = ARGV[own + 5] + ARGV[own + 6]
      local last = tokens == -cost and mark == clock + debt + shift
      local less, parts = span(-tokens, count, period)
      if last and (debt > less or debt == less and part >= parts) then
        -- All is as before the pass.
        debt, part = subtract(debt, part, less, parts, count + 0)
      elseif last or turn == '0' then
        -- A part of a µs is not given back.
        less = max(min(less, mark - shift - clock, debt), 0)
        debt = debt - less
        shift = last and shift or shift + less
      end
      local at = format('%.0f', ARGV[own + 5] + ARGV[own + 9])
      if turn ~= '0' and tokens == -cost and (last or at > clock) then
        free = free_turns(key, born, clock)
        local its_mark = format('%.0f', mark)
        -- After a failover, two may have taken one turn.
        if not last and not has_mark(free, its_mark) then
          free[#free + 1] = {at, ARGV[own + 3], its_mark, ARGV[own + 8]}
        end
      end
      if last then
        turn = earlier(ARGV[own + 8], turn)
        debt, part, turn = give_back_free(free or {}, clock + shift, debt, part, turn, count, period)
      end
    end
    call('HDEL', key, '')
    write(false, key, old, spent .. others,
      clock, debt, part, count, period, born, ends, back, turn, since, shift)
    if free then
      keep_turns(key, born, free)
    end
  end
  return now .. ' settled ' .. whole(debt, part)
end

return entries_serve(#KEYS, serve)
