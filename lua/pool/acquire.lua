-- uses pool/acquire_plain, core/entries, core/queue_join, pool/shared
-- entries 16 of 4 keys, 6 arguments, behind 4
-- Gives out permits of pools to attempts of one client, each by itself: n permits, as one hold or
-- as n holds of one each. Or queues their waiters. This script follows pool/acquire_plain.lua.
--
-- KEYS  for each entry K, D, Q, L of its pool; see shared.lua
-- ARGV  1 act_before  last server time in ms at which this may act, the first of all limits
--       2 client  the part that all attempts have in common
--       3 kind    of the pools
--       4 lease   ms
--       5..       for each entry:
--         attempt `:<n>`, to be appended to the client, never used twice
--         n       permits, 1 or more
--         size    default size of a pool without one, or ''
--         waiter  ms the waiter's client counts as alive if there are too few, or '' not to wait.
--                 Of several entries of a pool, the longest time counts
--         address the member of Q, `<verb> <channel> <n> <permits>[ <order>]`, or '' for an attempt
--                 that ends with a busy answer
--         each    '' for one hold, named like the attempt; '1' for n holds of one permit,
--                 `<attempt>:<0 to n-1>`. A call may ask for some thousand of them
-- Reply a text of one line per entry
--       <now> granted <n> <token> <lasts> <place>
--                lasts = ms from now if that is less than the requested lease (the pool expires),
--                else ''; place = 1 if this waiter was in the queue, 0 if not; absent in the answer
--                to a copy
--       <now> busy <remaining> <called> <entered>
--                remaining = ms until the next re-check, '' to leave that to others; called = n of
--                the waiter of this client whose turn it is, or one that holds by a release and
--                has not confirmed it, or ''; entered = 1 if this waiter was not in the queue
--                before
--       <now> more                too much to remove in one call: ask again at once
--       <now> large <size>        n is more than the size
--       <now> unset               the size is not set
--       <now> void                this attempt has ended, or counts as ended
--       <now> kind <kind>         the name is of another kind
--       -<code> <text>            the error of an entry, if there are others
--       {now, 'late'}             `act_before` has passed, for all entries
-- Cost  O(log n): TIME, and for each pool HMGET, ZADD, HSET when there is room for all entries and
--       nobody waits; O(n) with `each`. For entries that were notified also ZSCORE, ZRANGE, ZREM.
--       For those that queue TIME, HMGET, ZSCORE, ZRANGE × 3, ZADD. Once in FRESH ms + ZADD, HSET,
--       PEXPIRE × 2 for the client; with several clients a ZSCORE for each of those in front, 16 at
--       most; with expired holds their removal; a PUBLISH for each waiter that is notified.
--
-- The entries of a pool are served on one reading of its state, as if each had asked by itself:
-- first those who are in the queue in its order, and then the others in theirs. What they are told
-- about a later look is what holds after all of them. A client that was recorded as alive within
-- the last FRESH ms is not recorded again. Anything that a full server would accept comes after a
-- write that it refuses.
local call = redis.call
local FRESH = 100
local micros, now = began, string.sub(began, 1, 13)
local client, kind = ARGV[2], ARGV[3]

-- Returns the highest number of an attempt of the client that counts as ended by `v`, as `spend`
-- does; -1 if there is none.
local function ended(v)
  local from, to = string.find(v or '', ' ' .. client .. ':', 14, true)
  if not from or string.sub(v, from - 13, from - 1) < now then
    return -1
  end
  return tonumber(string.match(v, '^%d+', to + 1))
end

-- Serves the entries `pool` of one pool, and sets their lines. Returns the error of its reading, if
-- that failed.
local function serve(pool)
  local at = 4 * pool[1] - 3
  local k, d, q, l = KEYS[at], KEYS[at + 1], KEYS[at + 2], KEYS[at + 3]
  local names = pool.names
  local f = pool.read or call('HMGET', k, unpack(names))
  if f.err then
    return f
  end
  if f[1] and f[1] ~= kind then
    for _, i in ipairs(pool) do
      lines[i] = now .. ' kind ' .. string.gsub(f[1], '[%c ]', '?')
    end
    return nil
  end

  local wrote = false
  -- Precedes what a full server accepts. It refuses this, which changes nothing.
  local function refusable()
    if not wrote then
      wrote = true
      call('ZADD', q, 'XX', 0, '')
    end
  end

  if f[8] and f[8] <= now then
    -- The pool has expired. What refuses attempts is left.
    refusable()
    pool_delete(k, d, kind, f[4], 10000)
    f = {f[4] and kind, false, false, f[4]}
  end
  local out, size, ends = tonumber(f[3] or 0), tonumber(f[2]), f[8]
  local called, rung = f[6], f[9]
  local span, lasts = (now + ARGV[4]) .. '', ''
  if ends and ends < span then
    span = ends
    lasts = ends - now
  end

  -- Those who ask, in order; whether `some` of them may be served. Whoever stands for the second
  -- time, or has another channel, comes after all others.
  local asking, some, later, seen, channel, ttl, default = {}, false, nil, {}, nil, nil, nil
  local top, token, longer, over, field = ended(f[4]), pool.token or micros, {}, {}, 10

  -- Returns the number of the next grant: each of a pool has its own, though all have the same
  -- time.
  local function number()
    local one = token
    token = string.format('%.0f', token + 1)
    return one
  end

  -- Tells whether the waiter of `e` is in the queue.
  local function placed(e)
    if e.placed == nil then
      e.placed = e.member ~= '' and call('ZSCORE', q, e.member)
    end
    return e.placed
  end

  for _, i in ipairs(pool) do
    local own = 6 * i - 1
    local e = {
      line = i, attempt = client .. ARGV[own], n = tonumber(string.sub(ARGV[own], 2)), need = tonumber(ARGV[own + 1]),
      waiter = ARGV[own + 3], member = ARGV[own + 4], each = ARGV[own + 5] ~= '', from = field, to = field,
    }
    if e.each then
      e.to = field + e.need - 1
    end
    field = e.to + 1
    local mine = e.member ~= '' and queue_client(e.member)
    if seen[e.attempt] or mine and channel and mine ~= channel then
      later = later or {names = {unpack(names, 1, 9)}}
      later[#later + 1] = i
      for j = e.from, e.to do
        later.names[#later.names + 1] = names[j]
      end
    else
      seen[e.attempt] = true
      channel = channel or mine or nil
      local holds, withdrawn, gone = false, false, {}
      for j = e.from, e.to do
        local hold = f[j]
        if hold then
          local before = string.sub(hold, 1, 13)
          if before <= now then
            gone[#gone + 1] = j
          elseif string.sub(hold, 14, 16) == ' 0 ' then
            -- Its client has withdrawn it.
            withdrawn = true
          else
            holds = true
            if before < span then
              longer[#longer + 1], longer[#longer + 2] = names[j], span .. string.match(hold, ' %d+ %d+')
            end
          end
        end
      end
      local limit = size or tonumber(ARGV[own + 2])
      if holds then
        -- A copy of a granted acquire.
        lines[i] = now .. ' granted ' .. e.need .. ' ' .. number() .. ' ' .. lasts
      elseif withdrawn or e.n <= top and not placed(e) then
        lines[i] = now .. ' void'
      elseif not limit or e.need > limit then
        asking[#asking + 1] = e
        e.refusal = limit and ' large ' .. limit or ' unset'
      else
        if not size then
          size, default = limit, ARGV[own + 2]
        end
        asking[#asking + 1] = e
        some = true
        if e.waiter ~= '' and (not ttl or ttl + 0 < e.waiter + 0) then
          ttl = e.waiter
        end
        for _, j in ipairs(gone) do
          -- Its lease ended before this copy arrived.
          over[#over + 1] = names[j]
          out = out - string.match(f[j], ' (%d+)')
        end
      end
    end
  end
  if over[1] then
    -- A full server refuses the first write.
    call('HSET', k, 'c', out)
    call('HDEL', k, unpack(over))
    wrote = true
  end

  local waiting = f[5] and f[5] > now
  local lives, alive, last = {}, nil, nil
  local room, mine, view, ring, gone, latest, write, unserved

  -- Records the client as alive, looks at the queue, and serves those of it who ask, as far as
  -- there is room beside those who came before.
  local function look()
    if ttl and not alive then
      alive = waiting and call('ZSCORE', l, channel)
      if not alive or alive - now < ttl - FRESH then
        alive = (now + ttl) .. ''
        last = queue_touch(k, q, l, now, 'NONE ' .. channel, alive, f[5], '9')
        wrote = true
      end
      lives[channel] = alive
      waiting = true
    end
    view = pool_view(q, l, now, called, room, size, lives)
    if view.dead then
      refusable()
      call('ZREM', q, unpack(view.dead))
    end
    ring, gone, room, latest = pool_plan(view, now, called, rung, room, size, mine, write)
  end

  -- Decides who is served: those have a `place`. Writes nothing else.
  local function plan()
    room, mine, view, ring, gone, latest, write, unserved = (size or 0) - out, {}, nil, nil, nil, nil, {}, false
    for _, e in ipairs(asking) do
      e.place, e.void = nil, false
      if e.member ~= '' and not e.refusal then
        mine[e.member] = e
      end
    end
    if waiting and some then
      look()
    end
    local most = top
    for _, e in ipairs(asking) do
      if e.place and e.n > most then
        most = e.n
      end
    end
    for _, e in ipairs(asking) do
      if not e.place then
        e.void = most > top and e.n <= most and not placed(e)
      end
      if not e.place and not e.void and not e.refusal then
        if e.waiter ~= '' and not view and e.need > room then
          look()
        end
        if not e.place and room and e.need <= room then
          e.place = 0
          room = room - e.need
          mine[e.member] = nil
        elseif not e.place then
          unserved = true
          if e.waiter ~= '' then
            -- Nobody overtakes it.
            room = nil
          end
        end
        if e.n > most and (e.place or e.member == '') then
          most = e.n
        end
      end
    end
  end

  local first, more
  if asking[1] then
    plan()
    if unserved then
      first = call('ZRANGE', d, 0, 0, 'WITHSCORES')[2]
      if first and first <= now then
        refusable()
        out, more = reap(k, d, now, out)
        first = nil
        plan()
      end
    end
  end

  local index, busy, joins, spent_by = {}, {}, {}, nil
  write = write or {}
  local calls = write[1] == 'y'
  for _, e in ipairs(asking) do
    if e.place then
      out = out + e.need
      local permits = e.each and 1 or e.need
      for j = e.from, e.to do
        write[#write + 1], write[#write + 2] = names[j], span .. ' ' .. permits .. ' 0'
        index[#index + 1], index[#index + 2] = span, string.sub(names[j], 3)
      end
      lines[e.line] = now .. ' granted ' .. e.need .. ' ' .. number() .. ' ' .. lasts .. ' ' .. e.place
    end
  end
  for _, e in ipairs(asking) do
    local ends_here = e.place or e.member == ''
    if e.void or e.refusal then
      ends_here = false
      lines[e.line] = now .. (e.void and ' void' or e.refusal)
    elseif not e.place and (view and view.more or more and size - out < e.need) then
      ends_here = false
      lines[e.line] = now .. ' more'
    elseif not e.place then
      busy[#busy + 1] = e
      if e.waiter ~= '' then
        joins[#joins + 1] = e
      end
    end
    if ends_here and (not spent_by or spent_by.n < e.n) then
      spent_by = e
    end
  end
  if (index[1] or longer[1]) and (not f[7] or f[7] < span) then
    write[#write + 1], write[#write + 2] = 'u', span
  end
  if index[1] then
    write[#write + 1], write[#write + 2] = 'c', out
    if not f[1] then
      write[#write + 1], write[#write + 2] = 'k', kind
    end
    if not f[2] then
      write[#write + 1], write[#write + 2] = 's', default
    end
    -- A hold without its place in D would never end.
    call('ZADD', d, unpack(index))
  end
  for _, item in ipairs(longer) do
    write[#write + 1] = item
  end
  if spent_by then
    local spent = spend(f[4], spent_by.attempt, ARGV[1], now)
    if write[1] then
      write[#write + 1], write[#write + 2] = 'v', spent
    else
      -- Nobody undoes the attempt. Where the server takes no writes, no copy can act either.
      redis.pcall('HSET', k, 'v', spent)
    end
  end
  if write[1] then
    call('HSET', k, unpack(write))
  end
  if index[1] and ends then
    call('PEXPIRE', d, ends - now)
  elseif index[1] and f[1] and not f[2] then
    call('PERSIST', k)
  end
  if gone then
    if not write[1] then
      refusable()
    end
    call('ZREM', q, unpack(gone))
  end

  if joins[1] then
    -- They join behind all others and behind all that were notified.
    rung = latest or rung
    local newest = call('ZRANGE', q, -1, -1, 'WITHSCORES')[2]
    local ticket = micros
    if newest and ticket <= newest then
      ticket = string.format('%.0f', newest + 1)
    end
    if rung and ticket <= rung then
      ticket = string.format('%.0f', rung + 1)
    end
    local known, join, fresh = {}, {}, 0
    for j = 1, #view, 2 do
      known[view[j]] = view[j + 1]
    end
    for j, e in ipairs(joins) do
      e.ticket = ticket
      join[2 * j - 1], join[2 * j] = ticket, e.member
      ticket = string.format('%.0f', ticket + 1)
      if not known[e.member] then
        fresh = fresh + 1
      end
    end
    local entered = call('ZADD', q, 'NX', unpack(join))
    if not newest then
      call('PEXPIRE', q, (last or f[5]) - now - 1)
    end
    local low
    for _, e in ipairs(joins) do
      local has = known[e.member]
      if not has and entered < fresh then
        has = call('ZSCORE', q, e.member)
        if has == e.ticket then
          has = nil
        end
      end
      e.entered = has and 0 or 1
      if has and rung and has <= rung and (not low or has < low) then
        low = has
      end
      if not calls and queue_is_called(called, e.member) then
        -- It was notified, and came too early or too late.
        call('HDEL', k, 'y')
        called = false
      end
    end
    if low then
      -- It was notified, and has to be notified again.
      call('HSET', k, 'r', string.format('%.0f', low - 1))
    end
  elseif index[1] and view then
    pool_continue(k, q, l, now, view, gone)
  end
  for j = 1, #(ring or '') do
    pool_ring(k, ring[j])
  end

  -- When those who wait are to look again, and whose turn it is.
  local remaining, turn, unheard = '', '', nil
  if busy[1] and view and channel then
    local passed, head, until_then = {}, nil, nil
    for _, member in ipairs(gone or {}) do
      passed[member] = true
    end
    for j = view.n - 1, 1, -2 do
      if not passed[view[j]] then
        head = view[j]
        until_then = j == 1 and view.alive or lives[queue_client(head)]
      end
    end
    if not head and not view.whole then
      local rest_of_it = pool_view(q, l, now, false, size - out, size, lives)
      if rest_of_it.dead then
        call('ZREM', q, unpack(rest_of_it.dead))
      end
      if rest_of_it.n > 0 then
        head, until_then = rest_of_it[1], rest_of_it.alive
      end
    end
    if not head then
      head, until_then = (joins[1] or busy[1]).member, alive
    end
    if head ~= '' then
      local fits = pool_need(head) <= size - out
      if fits and now + GRACE < until_then + 0 then
        until_then = (now + GRACE) .. ''
      end
      if queue_client(head) ~= channel then
        local before = queue_before(q, l, channel, until_then, now)
        remaining = before and before - now or ''
      elseif fits then
        remaining = until_then - now
        turn = string.match(head, '^%u+ %S+ (%d+)')
      else
        first = first or call('ZRANGE', d, 0, 0, 'WITHSCORES')[2]
        if index[1] and (not first or span < first) then
          first = span
        end
        if first then
          remaining = math.max(first - now, 0)
        end
      end
    end
  end
  for _, e in ipairs(busy) do
    local look_again, who = '', ''
    if e.member ~= '' then
      look_again, who = remaining, turn
      if who == '' and e.entered ~= 1 then
        -- A waiter that has just come hears nothing of it: the message is on its way.
        unheard = unheard or pool_unheard(k, d, now, client, 16)
        who = unheard[1] or ''
      end
    end
    lines[e.line] = now .. ' busy ' .. look_again .. ' ' .. who .. ' ' .. (e.entered or 0)
  end
  if later then
    later.token = token
    return serve(later)
  end
  return nil
end

-- Serves entry i, and with it all others of its pool, which share its error. Returns its line.
local function serve_entry(i)
  local pool = pools[i]
  if not pool.served then
    pool.served = true
    local fine, failed = true, nil
    if entries == 1 then
      failed = serve(pool)
    else
      fine, failed = pcall(serve, pool)
    end
    pool.failed = not fine and type(failed) ~= 'table' and {err = failed} or failed
  end
  return pool.failed or lines[i]
end

return entries_serve(entries, serve_entry)
