-- Which attempts may not act any more. This part precedes the scripts that grant or end attempts,
-- and does nothing by itself.
--
-- K  v  `<ms> <client>:<n> …`, for each client the highest number of an attempt that was granted,
--       undone or refused, the latest ms first. No copy of it acts after that time
--
-- Copies of a request may come at any time before its limit, on any connection. An attempt is
-- refused if its number is not above the last one of its client, unless it holds or has a place. So
-- a script that grants an attempt, ends one or refuses one for good records it.
--
-- Only the last CLIENTS clients are on record. Behind them stands `<ms> *:0`: a request of any
-- other client is refused if its limit is not after that time, since it may be a copy. Times are
-- text of 13 digits and compared as text.

-- The most clients on record beside the one that is recorded.
local CLIENTS = 8

-- The ms after its sending at which a request may act.
local REACH = 5000

-- Returns the field v with the attempt `<client>:<n>`, whose requests act until `limit`, and true
-- if the attempt is refused. `v` is the field before. O(clients, at most 9). Writes nothing.
local function spend(v, attempt, limit, now)
  if not v or string.sub(v, 1, 13) < now then
    return limit .. ' ' .. attempt, false
  end
  local colon = string.find(attempt, ':', 1, true)
  local n = string.sub(attempt, colon + 1) + 0
  if string.sub(v, 15, 14 + colon) == string.sub(attempt, 1, colon) then
    -- Mostly nobody else is on record.
    local last = tonumber(string.sub(v, 15 + colon))
    if last and last < n then
      local ends = string.sub(v, 1, 13)
      return (ends > limit and ends or limit) .. ' ' .. attempt, false
    end
  end
  local client = string.sub(attempt, 1, colon - 1)
  local first, others, count, floor, refused = limit, '', 0, nil, false
  for ends, who, last in string.gmatch(v, '(%d+) ([^ :]+):(%d+)') do
    if ends < now then
      break
    elseif who == client then
      if last + 0 >= n then
        attempt, refused = client .. ':' .. last, true
      end
    elseif who == '*' then
      -- Unless the clock was set back since.
      refused = refused or limit <= ends and ends - now <= 2 * REACH
      floor = floor or ends
    elseif count < CLIENTS then
      count = count + 1
      others = others .. ' ' .. ends .. ' ' .. who .. ':' .. last
    else
      floor = floor or ends
    end
    if first < ends then
      first = ends
    end
  end
  if floor then
    others = others .. ' ' .. floor .. ' *:0'
  end
  return first .. ' ' .. attempt .. others, refused
end

