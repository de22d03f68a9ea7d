-- Which attempts may not act any more. This part precedes the scripts that grant or end attempts,
-- and does nothing by itself.
--
-- K  v  `<ms> <client>:<n> …`, for each client the highest number of an attempt that was granted,
--       undone or refused, and the time after which no copy of that client's attempts acts; the
--       latest first. Times never rise from left to right
--
-- Copies of a request may come at any time before its limit, on any connection. An attempt is
-- refused if its number is not above the last one of its client, unless it holds or has a place. So
-- a script that grants an attempt, ends one or refuses one for good records it. Behind the number
-- may stand what the script did for the attempt, such as `/1`, without a space and without a digit
-- in front.
--
-- Entries leave the right end when their time is over, two by each call. So the record has the
-- clients of the last seconds. Times are text of 13 digits and compared as text.

-- The ms after its sending at which a request may act.
local REACH = 5000

-- Returns the field v with the attempt `<client>:<n>`, whose requests act until `limit`, and true
-- if the attempt is refused. The attempt stands first, or if it is refused, the last one of its
-- client. `v` is the field before. O(1), and copies the text of `v`. Writes nothing.
local function spend(v, attempt, limit, now)
  if not v or v < now then
    return limit .. ' ' .. attempt, false
  end
  if v > limit then
    limit = string.sub(v, 1, 13)
  end
  local colon = string.find(attempt, ':', 1, true)
  local client = string.sub(attempt, 1, colon)
  -- One client alone, whose attempts rise: half of the time of a plain entry's check.
  if #v == #attempt + 14 and string.sub(v, 15, colon + 14) == client and string.sub(v, 15) < attempt then
    return limit .. ' ' .. attempt, false
  end
  local refused = false
  local from, to = string.find(v, ' ' .. client, 14, true)
  if from then
    local last, did = string.match(v, '^(%d*)(%S*)', to + 1)
    local alive = string.sub(v, from - 13, from - 1) >= now
    if alive and last ~= '' and last + 0 >= string.sub(attempt, colon + 1) + 0 then
      attempt, refused = client .. last .. did, true
    end
    -- Its entry goes, with the space before it, or behind the first one.
    to = to + #last + #did
    v = from == 14 and string.sub(v, to + 2) or string.sub(v, 1, from - 15) .. string.sub(v, to + 1)
  end
  for _ = 1, 2 do
    local oldest = string.match(string.sub(v, -96), '%d+ [^ ]+$')
    if not oldest or string.sub(oldest, 1, 13) >= now then
      break
    end
    v = string.sub(v, 1, -#oldest - 2)
  end
  return limit .. ' ' .. attempt .. (v == '' and '' or ' ') .. v, refused
end

