-- uses rwlock/state
-- A new read hold. This part follows rwlock/state.lua.

-- Admits an owner as a reader, or one more of its attempts. Returns count, token, abandoned, lasts,
-- serial.
local function let_read(s, index, now, micros, owner, attempt, lease, ttl, kind)
  local ends = (now + lease) .. ''
  local hold, held = s.own, ' '
  local serial, token, short, abandoned = micros, s.token, '', 0
  if lasts(hold, now) then
    serial, held = string.sub(hold, 15, 30), string.sub(hold, 50)
    local till = string.sub(hold, 1, 13)
    kind = string.sub(hold, 49, 49)
    if till > ends or kind == 'R' or kind == 'U' then
      if till < ends then
        short = till - now
      end
      ends = till
    end
  else
    if serial <= s.last then
      serial = string.format('%.0f', s.last + 1)
    end
    -- The ended hold was counted, unless it was ended by force.
    if not hold or string.sub(hold, 49, 49) == 'f' then
      s.count = s.count + 1
    end
    s.last = serial
  end
  if s.writer and s.ends <= now and s.attempts ~= ' ' then
    abandoned = 1
  end
  if not string.find(held, ' ' .. attempt .. ' ', 1, true) then
    held = held .. attempt .. ' '
  end
  local write = {'r' .. owner, ends .. ' ' .. serial .. ' ' .. (token or micros) .. ' ' .. kind .. held, 'c', counter(s), 'v', s.spent}
  if not token then
    -- No write is known. A new token separates the data read from now on from data read before.
    token = micros
    write[7], write[8], write[9], write[10] = 't', token, 'k', 'rw:1'
  elseif not s.kind then
    write[7], write[8] = 'k', 'rw:1'
  end
  if kind == 'u' then
    write[#write + 1], write[#write + 2] = 'g', owner
    -- The previous upgradable hold may be among the dead ones removed below, and must not take this
    -- one's mark along.
    s.upgradable = owner
  end
  if s.writer and s.ends <= now and s.ends ~= OVER then
    -- The clock of another server may be behind: an end here has to be an end there.
    write[#write + 1], write[#write + 2] = 'u', OVER
    s.ends = OVER
  end
  -- The index comes first: if another program has its key, no hold without a TTL stays.
  call('ZADD', index, ends, owner)
  call('HSET', s.key, unpack(write))
  if s.count > 1 then
    -- Two removals per reader: dead readers do not accumulate where nobody writes.
    reap(s, index, now, 2)
    if s.reaped then
      call('HSET', s.key, 'c', counter(s))
    end
  end
  prolong(s.key, ttl)
  prolong(index, ttl)
  return size(held), token, abandoned, short, serial
end

