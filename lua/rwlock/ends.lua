-- uses core/end_attempt, rwlock/state
-- The end of a write hold, and of an attempt. This part follows core/end_attempt.lua and
-- rwlock/state.lua.

-- Records an attempt whose requests could act until `void`.
local function mark_void(s, attempt, void, now)
  s.spent = end_attempt(s.key, s.spent, 'rw:1', attempt, void, now)
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

-- Ends a write of which its attempt knows nothing. If the holder before never released, the next
-- one is told so instead: `died` is ` - ` if the write was given back in time or nobody knew of it,
-- and ` = ` otherwise.
local function end_unheard(s, died)
  if died then
    call('HDEL', s.key, 'p')
    call('HSET', s.key, 'h', died, 'u', OVER)
    s.attempts, s.ends = died, OVER
  else
    call('HDEL', s.key, 'o', 'h', 'u', 'p')
    s.writer, s.ends, s.attempts = false, false, false
  end
end

