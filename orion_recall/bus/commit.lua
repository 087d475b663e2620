#!lua flags=allow-oom
-- Reply, decision, dead letter and acknowledgement of one stream entry, as one step.
--
-- allow-oom: a server whose memory is full refuses those who add messages. An answer takes its message off the stream,
-- so refusing it, too, would keep the memory full for ever.
--
-- Lua does not roll back, so everything that can refuse comes first: every key that is to be written must be absent
-- or a stream, the entry must still be pending, and the reply, whose address is the caller's choice, must go through.
-- Then XACK is the fence: it returns 1 to exactly one caller, whoever claimed the entry.
--
-- KEYS  1 intake  2 reply stream  3 decision stream  4 dead-letter stream
-- ARGV  1 group   2 entry id
--       3 reply mode: "own" (a caller's stream: trimmed by length, expires), "shared" (trimmed by age),
--         "channel" (published), "none"
--       4 reply  5 reply length  6 reply life in seconds  7 channel
--       8 decision or ""  9 decisions kept at most
--      10 dead-letter reason or ""  11 correlation id  12 "1": the dead letter holds the entry's fields, "0": not
--      13 the group that persists decisions
--      14 the decision as it is published, or ""
--      15 bytes of a reply stream  16 of the decision stream  17 dead letters kept at most  18 their bytes
--      19 bytes of an entry that is too large to keep, or ""  20 hash of its message  21 first bytes of its message
--      22... the channels that decisions are published on
-- Returns 1 committed, 2 committed and a channel of decisions is closed to us, 0 fenced (somebody has answered),
--        -1 the reply address cannot be written to, -2 a stream of our own has another type.
local function writable(key)
  local kind = redis.call('TYPE', key).ok
  return kind == 'none' or kind == 'stream'
end

-- How many entries of the stream the group has been given; 0 without the group, or where the server does not know.
local function read_by(group, key)
  local groups = redis.pcall('XINFO', 'GROUPS', key)
  if groups.err then return 0 end
  for _, told in ipairs(groups) do
    local fields = {}
    for i = 1, #told, 2 do fields[told[i]] = told[i + 1] end
    if fields.name == group and fields.lag then return math.max(0, redis.call('XLEN', key) - fields.lag) end
  end
  return 0
end

-- The length that brings the stream within its bytes, were its entries of one size; nil where it is within them, or
-- where the server does not say.
local function length_within(key, bytes)
  local used = redis.pcall('MEMORY', 'USAGE', key, 'SAMPLES', 0)
  local length = redis.call('XLEN', key)
  if type(used) ~= 'number' or used <= bytes or length <= 1 then return nil end
  return math.max(1, math.floor(length * bytes / used * 0.9))
end

-- Trims the oldest entries until the stream is within its bytes; the newest stays. How many went.
local function trim_to_bytes(key, bytes)
  local gone = 0
  for _ = 1, 50 do
    local kept = length_within(key, bytes)
    if kept == nil then break end
    gone = gone + redis.call('XTRIM', key, 'MAXLEN', kept)
  end
  return gone
end

local mode, decision, reason, size = ARGV[3], ARGV[8], ARGV[10], ARGV[19]
if (mode == 'own' or mode == 'shared') and not writable(KEYS[2]) then return -1 end
if decision ~= '' and not writable(KEYS[3]) then return -2 end
if reason ~= '' and not writable(KEYS[4]) then return -2 end

local pending = redis.pcall('XPENDING', KEYS[1], ARGV[1], ARGV[2], ARGV[2], 1)
if pending.err and string.find(pending.err, 'WRONGTYPE', 1, true) then return redis.error_reply(pending.err) end
if pending.err or #pending == 0 then return 0 end
local entry = reason ~= '' and size == '' and redis.call('XRANGE', KEYS[1], ARGV[2], ARGV[2]) or {}

-- A replica publishes, too: a server that takes no writes now must say so before. The id is nobody's.
if mode == 'channel' then redis.call('XACK', KEYS[1], ARGV[1], '0-0') end

-- pcall: a stream may have used up its ids, and a channel may be closed to us by an access list.
local said = true
if mode == 'own' then
  said = redis.pcall('XADD', KEYS[2], 'MAXLEN', '~', ARGV[5], '*', 'envelope', ARGV[4])
elseif mode == 'shared' then
  local now = redis.call('TIME')
  said = redis.pcall('XADD', KEYS[2], 'MINID', '~', (now[1] - ARGV[6]) * 1000, '*', 'envelope', ARGV[4])
elseif mode == 'channel' then
  said = redis.pcall('PUBLISH', ARGV[7], ARGV[4])
end
if type(said) == 'table' and said.err then
  -- What is the server's trouble passes: a replica since a moment ago, too few replicas, a full disk, no memory left.
  for _, trouble in ipairs({'READONLY', 'NOREPLICAS', 'MISCONF', 'OOM'}) do
    if string.find(said.err, trouble, 1, true) then return redis.error_reply(said.err) end
  end
  return -1
end

if redis.call('XACK', KEYS[1], ARGV[1], ARGV[2]) ~= 1 then return 0 end
if mode == 'own' then redis.call('EXPIRE', KEYS[2], ARGV[6]) end
-- Measuring walks the stream: now and then is enough.
if (mode == 'own' or mode == 'shared') and redis.call('XLEN', KEYS[2]) % 16 == 0 then
  trim_to_bytes(KEYS[2], tonumber(ARGV[15]))
end

if decision ~= '' then
  redis.call('XADD', KEYS[3], '*', 'envelope', decision)
  local length, cap, bytes = redis.call('XLEN', KEYS[3]), tonumber(ARGV[9]), tonumber(ARGV[16])
  local is_over = length % 64 == 0 and length_within(KEYS[3], bytes) ~= nil
  if length > cap or is_over then
    -- Beyond the cap the oldest go, and how many of them no sink had read is counted beside the stream.
    local read = read_by(ARGV[13], KEYS[3])
    local lost = redis.call('XTRIM', KEYS[3], 'MAXLEN', '~', cap) - read
    if is_over then lost = lost + trim_to_bytes(KEYS[3], bytes) end
    if lost > 0 then redis.pcall('INCRBY', KEYS[3] .. ':trimmed', lost) end
  end
end

if reason ~= '' then
  local fields = entry[1] and entry[1][2] or {}
  local letter = {'entry_id', ARGV[2], 'reason', reason, 'correlation_id', ARGV[11]}
  local function put(name, value)
    letter[#letter + 1] = name
    letter[#letter + 1] = value
  end
  -- Lua hands over a few thousand arguments at most; how many fields did not fit is said.
  local kept = math.min(#fields, 2000)
  if ARGV[12] == '0' then
    kept = 0
    put('message_withheld', '1')
  elseif size ~= '' then
    put('message_sha256', ARGV[20])
    put('message_head', ARGV[21])
  end
  if size ~= '' then put('message_bytes', size) end
  if kept < #fields then put('fields_left_out', (#fields - kept) / 2) end
  for i = 1, kept, 2 do put('field:' .. fields[i], fields[i + 1]) end
  redis.call('XADD', KEYS[4], 'MAXLEN', '~', ARGV[17], '*', unpack(letter))
  trim_to_bytes(KEYS[4], tonumber(ARGV[18]))
end

redis.call('XDEL', KEYS[1], ARGV[2])

local committed = 1
if ARGV[14] ~= '' then
  for i = 22, #ARGV do
    local published = redis.pcall('PUBLISH', ARGV[i], ARGV[14])
    if type(published) == 'table' and published.err then committed = 2 end
  end
end
return committed
