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
-- their times. The turn of any other one is free for the next waiter, until all behind are given
-- back.
-- Begins with HDEL, which a full server accepts.

-- Adds a turn to the free ones. After a failover, two passes may have taken one turn.
local function set_free(free, turn)
  for _, other in ipairs(free) do
    if other[3] == turn[3] then
      return
    end
  end
  free[#free + 1] = turn
end

-- Gives back the free turns that are the last ones ahead. `start` + `debt` is the mark of the last.
-- Returns the debt, its part and the turn.
local function give_back(free, start, debt, part, turn, count, period)
  local at = #free
  while at > 0 do
    local _, cost, mark, before = unpack(free[at])
    local less, parts = span(cost + 0, count, period)
    local left, left_part = debt - less, part - parts
    if left_part < 0 then
      left, left_part = left - 1, left_part + count
    end
    if mark + 0 == start + debt and left >= 0 then
      debt, part, turn = left, left_part, before < turn and before or turn
      table.remove(free, at)
      at = #free + 1
    end
    at = at - 1
  end
  return debt, part, turn
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
      local mark, at = ARGV[own + 5] + ARGV[own + 6], ARGV[own + 5] + ARGV[own + 9]
      local last = tokens == -cost and mark == clock + debt + shift
      if turn == '0' then
        -- A part of a µs is not given back.
        local less = max(min(span(-tokens, count, period), mark - shift - clock, debt), 0)
        debt = debt - less
        -- Without the last pass, all is as before.
        shift = last and shift or shift + less
      elseif last or tokens == -cost and at > clock + 0 then
        free = free_turns(key, born, clock)
        set_free(free, {format('%.0f', at), ARGV[own + 3], format('%.0f', mark), ARGV[own + 8]})
        debt, part, turn = give_back(free, clock + shift, debt, part, turn, count, period)
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
