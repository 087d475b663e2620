-- One published query into the query stream, unless it is there already.
--
-- Every worker hears what is published. The first to come here takes the message's id and adds the entry; both in one
-- step, or a worker that ends between the two would lose the message for all of them.
--
-- KEYS  1 query stream  2 the key that marks the message's id as taken
-- ARGV  1 how long it is marked, in ms  2... the entry's fields and values
-- Returns 1 entered, 0 it was entered before.
if not redis.call('SET', KEYS[2], '1', 'NX', 'PX', ARGV[1]) then return 0 end
local added = redis.pcall('XADD', KEYS[1], '*', unpack(ARGV, 2))
if type(added) == 'table' and added.err then
  -- Lua does not roll back: the mark of what did not get in would keep it out.
  redis.call('DEL', KEYS[2])
  return redis.error_reply(added.err)
end
return 1
