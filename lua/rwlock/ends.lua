-- uses rwlock/state
-- The end of a write hold, and of an attempt. This part follows core/marks.lua and
-- rwlock/state.lua.

-- Marks an attempt whose copies could act until `void`.
local function mark_void(s, attempt, void, now)
  marks_add(s.key, s.voids, 'rw:1', attempt, void, now)
end

-- Removes an attempt of the writer. Returns true if the write has ended with it.
local function end_write(s, attempt, now)
  local from, to = string.find(s.attempts, ' ' .. attempt .. ' ', 1, true)
  s.attempts = string.sub(s.attempts, 1, from) .. string.sub(s.attempts, to + 1)
  if s.attempts == ' ' and s.ends > now then
    call('HDEL', s.key, 'o', 'h', 'u', 'p')
    s.writer, s.ends, s.attempts = false, false, false
    return true
  end
  call('HDEL', s.key, '')
  if s.attempts == ' ' then
    -- An expired hold keeps its owner field, so that a copy of this call gets the same answer. The
    -- clock of another server may be behind: an end here has to be an end there.
    call('HSET', s.key, 'h', ' ', 'u', OVER)
    s.ends = OVER
  else
    call('HSET', s.key, 'h', s.attempts)
  end
  return false
end

-- Ends a write that a release gave to an attempt which knows nothing of it. If the holder before
-- never released, the next one is told so instead.
local function end_given(s, unconfirmed)
  if string.sub(unconfirmed, 18, 18) == '1' then
    call('HDEL', s.key, 'p')
    -- ` - ` is a hold without an attempt.
    call('HSET', s.key, 'h', ' - ', 'u', OVER)
    s.attempts, s.ends = ' - ', OVER
  else
    call('HDEL', s.key, 'o', 'h', 'u', 'p')
    s.writer, s.ends, s.attempts = false, false, false
  end
end

