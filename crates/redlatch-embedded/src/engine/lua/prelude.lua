-- The environment of a script: protected globals, sealed libraries, and the function that runs a
-- script. Takes a table of host functions. Returns the environment and run(body, keys, argv).
local host = ...

local error, pcall, setmetatable, tostring, xpcall = error, pcall, setmetatable, tostring, xpcall

local function read_only()
  error("Attempt to modify a readonly table", 2)
end

local function sealed(real)
  return setmetatable({}, { __index = real, __newindex = read_only })
end

local globals = {
  _VERSION = _VERSION,
  assert = assert,
  error = error,
  ipairs = ipairs,
  next = next,
  pairs = pairs,
  rawequal = rawequal,
  rawget = rawget,
  select = select,
  tonumber = tonumber,
  tostring = tostring,
  type = type,
  unpack = unpack,
  KEYS = {},
  ARGV = {},
}

-- An error of the host is an object. A script must catch the same value as on a server: pcall
-- returns a string, and xpcall passes the raised value.
local function caught(ok, ...)
  if ok then
    return true, ...
  end
  return false, host.caught_error((...))
end

function globals.pcall(...)
  return caught(pcall(...))
end

function globals.xpcall(body, handler)
  return xpcall(body, function(err)
    return handler(host.raised_error(err))
  end)
end

string.dump = nil
math.random, math.randomseed = host.random, host.random_seed
globals.string, globals.table, globals.math = sealed(string), sealed(table), sealed(math)

globals.redis = sealed({
  call = host.call,
  pcall = host.pcall,
  error_reply = host.error_reply,
  status_reply = host.status_reply,
  sha1hex = host.sha1hex,
  log = host.log,
  setresp = host.setresp,
  replicate_commands = function() return true end,
  LOG_DEBUG = 0,
  LOG_VERBOSE = 1,
  LOG_NOTICE = 2,
  LOG_WARNING = 3,
})
if host.is_valkey then
  globals.server = globals.redis
end

setmetatable(globals, {
  __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
  end,
})
local env = sealed(globals)
globals._G = env

local report = host.report
local function run(body, keys, argv)
  globals.KEYS, globals.ARGV = keys, argv
  return xpcall(body, report)
end

return env, run
