-- Serving entries that are not plain, each by itself. This part follows a part that leaves `lines`,
-- the replies of the plain entries, and `rest`, the numbers of the others.

-- Serves the entries of `rest` by `serve(i)`, which returns a line or an error. `all` is the number
-- of entries. An error of one entry becomes its line, `-<code> <text> script: entry`, whose end
-- says that the script may have written before. `OOM`, `READONLY`, `NOREPLICAS` and `MISCONF` end
-- the call with all its entries: a server that takes no writes refuses the first one, so nothing
-- has been written by then. Returns the reply. A call with one entry fails like any other script.
local function entries_serve(all, serve)
  if all == 1 then
    return serve(1)
  end
  for _, i in ipairs(rest) do
    local fine, line = pcall(serve, i)
    if not fine or type(line) == 'table' then
      line = type(line) == 'table' and line.err or line .. ''
      line = string.gsub(string.gsub(line, '^@[%w_]+: ?%d+: ', ''), '%c', ' ')
      line = string.gsub(line, '^%-', '')
      local code = string.match(line, '^(%u+) ') or string.match(line, '^%u+$')
      if code and string.find(' OOM READONLY NOREPLICAS MISCONF ', ' ' .. code .. ' ', 1, true) then
        return redis.error_reply(line)
      end
      line = '-' .. (code and '' or 'ERR ') .. line .. ' script: entry'
    end
    lines[i] = line
  end
  return table.concat(lines, '\n')
end

