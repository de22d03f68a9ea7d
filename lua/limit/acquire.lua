-- uses core/begin, limit/shared, core/entries
-- entries 16 of 1 key, 2 arguments, behind 3
-- Takes passes of rate limiters, each entry by itself. This script follows limit/shared.lua and
-- core/entries.lua.
--
-- KEYS  for each entry K; see shared.lua
-- ARGV  1 act_before  last server time in ms at which this may act, the first of all limits
--       2 client  the part that all attempts have in common
--       3 keep    ms an attempt is remembered; the same for all
--       4..       for each entry:
--         attempt `:<n>`, to be appended to the client, never used twice. A client has one attempt
--                 on a key under way at a time
--         terms   `<count>/<period>/<burst>/<cost>/<passes>/<wait>`, which most entries of a call
--                 have in common
--                   count   of tokens, and
--                   period  in µs: the rate, without a common divisor
--                   burst   tokens, 1 or more
--                   cost    of one pass in tokens, 1 to burst
--                   passes  1 to 64: so many are asked for, and as many are taken as may pass
--                   wait    µs, 365 days at most. If none may pass now, one is taken ahead that
--                           counts within this time
-- Reply a text of one line per entry
--       <now> passed <n> <wait> <debt> <at> <from> <left> <born> <turn>
--                n = 0 to passes; wait = µs until they count, or until one may be taken if n = 0;
--                debt = µs until all tokens are paid; at = server time in µs at which they count;
--                the others are for a settlement, and '' in the answer to a copy: from = time by
--                the clock of K, mark = from + left, and no pass that was taken ahead before
--                counts later than turn
--       <now> void           this attempt has ended
--       <now> kind <kind>    the name is of another kind
--       -<code> <text>       the error of an entry, if there are others
--       {now, 'late'}        `act_before` has passed, for all entries
-- Cost  O(clients of the last `keep` ms): TIME, and per entry HMGET, HSET, and now and then
--       PEXPIRE. For a waiter while passes are ahead also HGET, and HSET or HDEL.
--
-- A refused attempt is recorded as well: a late copy must not take a pass that its caller does not
-- use. The first write of a pass is one that a full server refuses. A refusal needs no write.

-- The terms of the last entry: the rate, its count as a number, the cost of a pass, the passes, the
-- time to wait, the time to pay one pass, and the debt under which another one may pass.
local terms, count, period, unit, cost, asked, within, price, price_part, room, parts

local function read_terms(text)
  if text == terms then
    return
  end
  local burst
  terms, count, period, burst, cost, asked, within = text, match(text, '^(%d+)/(%d+)/(%d+)/(%d+)/(%d+)/(%d+)$')
  cost = cost + 0
  price, price_part = span(cost, count, period)
  room, parts = span(burst - cost, count, period)
  unit, asked, within = count + 0, asked + 0, min(within + 0, LONGEST)
end

-- Takes the first of the turns that were given back, for a pass that counts before `latest`.
-- Returns the turn and the others, or nil.
local function take_turn(key, born, clock, latest)
  local turns, first = free_turns(key, born, clock), nil
  for i = 1, #turns do
    local at, most = turns[i][1], turns[i][2]
    if cost <= most + 0 and at - clock <= latest and (not first or at < turns[first][1]) then
      first = i
    end
  end
  if first then
    return table.remove(turns, first), turns
  end
end

-- Serves entry i. Returns its line.
local function serve(i)
  local own = 2 * i + 2
  local key = KEYS[i]
  read_terms(ARGV[own + 1])
  local line, old, spent, others, copy, at, ahead = begin(key, ARGV[own])
  if line then
    return line
  end
  local clock, debt, part, _, _, born, ends, back, turn, since, shift, long = read(old, count, period)
  local before = turn
  local wait = max(debt - room + (part > parts and 1 or 0), 0)
  if since ~= '0' then
    wait = max(wait, since - clock)
  end
  local passes, owed, from, left = copy or 0, nil, '', ''
  if copy then
    owed, born, before = whole(debt, part), '', ''
    if copy > 0 then
      wait = ahead and max(at - clock, 0) or 0
    else
      at = clock
    end
  else
    at = clock
    local turn_of, others_free
    if wait > 0 and within > 0 and turn ~= '0' and not long then
      turn_of, others_free = take_turn(key, born, clock, min(wait, within))
    end
    if turn_of then
      passes, at, before = 1, turn_of[1], turn_of[4]
      wait = at - clock
      spent = spent .. '/1+' .. at
    elseif wait <= within and not long then
      local most = wait == 0 and asked or 1
      repeat
        debt, part = add(debt, part, price, price_part, unit)
        passes = passes + 1
      until passes >= most or debt > room or debt == room and part > parts
      if wait > 0 then
        at = format('%.0f', clock + wait)
        turn = at > turn and at or turn
      end
      spent = spent .. '/' .. (TEXT[passes] or passes) .. (wait > 0 and '+' or '/') .. at
    end
    if long then
      write(true, key, old, spent .. others, read(old))
    else
      owed = write(passes == 0, key, old, spent .. others,
        clock, debt, part, count, period, born, ends, back, turn, since, shift)
    end
    from, left = clock, owed or debt
    if turn_of then
      keep_turns(key, born, others_free)
      left = format('%.0f', turn_of[3] - clock)
    elseif shift ~= 0 then
      left = format('%.0f', debt + shift)
    end
    owed = part == 0 and owed or whole(debt, part)
  end
  at = back == '0' and at or format('%.0f', at - back)
  return now .. ' passed ' .. (TEXT[passes] or passes) .. ' ' .. (TEXT[wait] or wait) .. ' ' .. owed .. ' ' .. at
    .. ' ' .. from .. ' ' .. left .. ' ' .. born .. ' ' .. before
end

return entries_serve(#KEYS, serve)
