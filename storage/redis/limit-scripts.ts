// Scripts with which the server decides on windows and budgets.
import { createHash } from 'node:crypto';

/** A script with its text and its hash on the server. */
export interface Script {
  readonly source: string;
  readonly sha1: string;
}

function script(source: string): Script {
  return { source, sha1: createHash('sha1').update(source).digest('hex') };
}

/** A gateway without a heartbeat for this long loses its reservations. Milliseconds. */
const lostAfterMs = 30_000;

/**
 * Sliding windows. A counter is a text of doubles, 8 bytes each: the total, then pairs of last moment and amount, one
 * per sub-bucket, oldest first, at most 61 of them. Most calls change the newest pair only, so the others stay packed.
 * The arithmetic equals that of the counters in memory, to the millisecond. Time is in milliseconds, that of the server
 * unless a call brings one, so that the clocks of the gateways do not matter.
 */
const windowFunctions = `
local floor, sub, pack, unpacked = math.floor, string.sub, struct.pack, struct.unpack
local now

local function set_time(given)
  now = tonumber(given)
  if now then return end
  local time = redis.call('TIME')
  now = time[1] * 1000 + floor(time[2] / 1000)
end

local function bucket_at(time, length)
  return floor(time * 60 / length)
end

-- The sum, so that fractions do not drift over the life of a busy key.
local function recounted(older, newest)
  local total = newest
  for i = 1, #older, 16 do
    local _, amount = unpacked('<dd', older, i)
    total = total + amount
  end
  return total
end

-- older: the packed pairs before the newest one, which is last_at and last_amount.
local by_key = {}
local function open(key, length)
  local window = by_key[key]
  if window then return window end
  window = { key = key, length = length, at = now, older = '', total = 0 }
  by_key[key] = window
  local stored = redis.call('GET', key)
  if not stored then return window end
  local newest, amount = unpacked('<dd', stored, #stored - 15)
  -- A clock that went back stands still until it has caught up: it must not open a limit.
  if window.at < newest then window.at = newest end
  local ended = window.at - length
  if newest <= ended then return window end
  window.last_at, window.last_amount = newest, amount
  local first = 9
  while unpacked('<d', stored, first) <= ended do first = first + 16 end
  window.older = sub(stored, first, -17)
  window.total = first == 9 and unpacked('<d', stored) or recounted(window.older, amount)
  return window
end

local function add(window, more)
  local at, last = window.at, window.last_at
  if last and bucket_at(last, window.length) == bucket_at(at, window.length) then
    window.last_amount = window.last_amount + more
  else
    if last then window.older = window.older .. pack('<dd', last, window.last_amount) end
    window.last_amount = more
  end
  window.last_at = at
  window.total = window.total + more
end

-- Expiry is housekeeping and decides nothing, hence the ten seconds to spare.
local function save(window)
  local stored = pack('<d', window.total) .. window.older .. pack('<dd', window.last_at, window.last_amount)
  redis.call('SET', window.key, stored, 'PX', string.format('%.0f', window.length + 10000))
end
`;

/** Delay until a window admits an amount. */
const waitFunctions = `
local function until_at_most(window, most)
  local older, rest = window.older, window.total
  if rest <= most then return 0 end
  if most < 0 or not window.last_at then return math.huge end
  for i = 1, #older, 16 do
    local at, amount = unpacked('<dd', older, i)
    rest = rest - amount
    if rest <= most then return at + window.length - window.at end
  end
  return window.last_at + window.length - window.at
end

-- The total, and the milliseconds until one more may be taken.
local function state_of(window, limit)
  local wait = 0
  if not (window.total < limit) then wait = until_at_most(window, limit - 1) end
  if wait == math.huge then wait = window.length end
  return string.format('%.17g %.0f', window.total, wait)
end
`;

const giveBackFunction = `
-- Pairs that are given back whole are dropped: they count nothing, and the newest pair keeps the time.
local function give_back(window, rest)
  local older, before = window.older, rest
  local from, kept = 1, ''
  while rest > 0 and from < #older do
    local at, amount = unpacked('<dd', older, from)
    local taken = math.min(amount, rest)
    rest = rest - taken
    if amount > taken then kept = pack('<dd', at, amount - taken) end
    from = from + 16
  end
  if from > 1 then window.older = kept .. sub(older, from) end
  local taken = math.min(window.last_amount, rest)
  window.last_amount = window.last_amount - taken
  if before % 1 == 0 and window.total % 1 == 0 then
    window.total = window.total - before + rest - taken
  else
    window.total = recounted(window.older, window.last_amount)
  end
end

local function adjust(window, amount)
  if amount > 0 then return add(window, amount) end
  if window.last_at then give_back(window, -amount) end
end

local function save_adjusted()
  for _, window in pairs(by_key) do
    if window.last_at then save(window) end
  end
end
`;

/**
 * Takes an amount from every window, or from none. KEYS: one per window. ARGV: the limit and the length of each window,
 * then the amount, then the time (empty: the server's own). Replies `ALLOWED REFUSED_BY`, then the total and the
 * milliseconds until one more may be taken for each window.
 */
const takeScript = script(`${windowFunctions}${waitFunctions}
local count = #KEYS
local amount = tonumber(ARGV[2 * count + 1])
set_time(ARGV[2 * count + 2])
local windows, limits = {}, {}
for i = 1, count do
  limits[i] = tonumber(ARGV[2 * i - 1])
  windows[i] = open(KEYS[i], tonumber(ARGV[2 * i]))
end

local allowed = true
for i = 1, count do
  -- Written so that a limit that is no number refuses.
  if not (windows[i].total + amount <= limits[i]) then allowed = false end
end
local refused_by = -1
if not allowed then
  local longest = -1
  for i = 1, count do
    local wait = until_at_most(windows[i], limits[i] - amount)
    if wait > longest then longest, refused_by = wait, i - 1 end
  end
elseif amount > 0 then
  for i = 1, count do add(windows[i], amount) end
  for _, window in pairs(by_key) do save(window) end
end
local reply = { allowed and '1' or '0', tostring(refused_by) }
for i = 1, count do reply[i + 2] = state_of(windows[i], limits[i]) end
return table.concat(reply, ' ')
`);

/** Adds the amount without a check, or gives it back (negative): from the oldest first, never below zero. */
const adjustScript = script(`${windowFunctions}${giveBackFunction}
local count = #KEYS
local amount = tonumber(ARGV[2 * count + 1])
set_time(ARGV[2 * count + 2])
local windows = {}
for i = 1, count do windows[i] = open(KEYS[i], tonumber(ARGV[2 * i])) end
for i = 1, count do adjust(windows[i], amount) end
save_adjusted()
return 'OK'
`);

/**
 * Budgets. Each is a hash: `e` its epoch, `u` its use since then, `k` when its expiry was set last, and for each gateway
 * with running requests `r:GATEWAY` with `SESSION RESERVED`. The hash of gateways holds the last heartbeat and the session of each. A gateway
 * starts a session with each connection, because commands in flight on the old one may or may not have run: its
 * reservations of earlier sessions do not count, nor do those of a lost gateway.
 *
 * Each call brings the gateway's state: the use since an epoch, and the certain reservation. When the server has less
 * (it is new, or was flushed), it adopts that; otherwise it changes nothing.
 */
const budgetFunctions = `
local whole = function(number) return string.format('%.0f', number) end
local me, session, keep, gateways_key
-- A key is kept for a tenth longer, so that its expiry need not be set by each call.
local function keep_on(key)
  redis.call('PEXPIRE', key, whole(keep * 1.1))
end
local gateways = {}

local function read_gateway(text)
  local heard, entered = string.match(text, '^(%d+) (%d+)$')
  return { heard = tonumber(heard) or 0, session = tonumber(entered) or 0 }
end

local function open_gateways(key)
  gateways_key = key
  local all = redis.call('HGETALL', key)
  for i = 1, #all, 2 do gateways[all[i]] = read_gateway(all[i + 1]) end
  -- What was sent over a connection that has been replaced meanwhile.
  return not (gateways[me] and gateways[me].session > session)
end

local function is_heard(gateway, entered)
  return gateway and now - gateway.heard <= ${lostAfterMs} and entered >= gateway.session
end

local budgets_by_key = {}
local function open_budget(key, epoch, used, certain)
  if budgets_by_key[key] then return budgets_by_key[key] end
  local budget = { key = key, epoch = 0, used = 0, kept = 0, others = 0, own = 0, lost = {} }
  local all = redis.call('HGETALL', key)
  for i = 1, #all, 2 do
    local field, value = all[i], all[i + 1]
    if field == 'e' then
      budget.epoch = tonumber(value)
    elseif field == 'u' then
      budget.used = tonumber(value)
    elseif field == 'k' then
      budget.kept = tonumber(value)
    else
      local gateway = string.sub(field, 3)
      local entered, reserved = string.match(value, '^(%d+) (%d+)$')
      entered, reserved = tonumber(entered) or 0, tonumber(reserved) or 0
      if gateway == me then
        budget.is_held = true
        if entered == session then budget.own = reserved end
      elseif is_heard(gateways[gateway], entered) then
        budget.others = budget.others + reserved
      else
        budget.lost[#budget.lost + 1] = field
      end
    end
  end
  if epoch > budget.epoch then
    budget.epoch, budget.used = epoch, used
  elseif epoch == budget.epoch and used > budget.used then
    budget.used = used
  end
  if certain > budget.own then budget.own = certain end
  budgets_by_key[key] = budget
  return budget
end

local function save_budgets()
  for key, budget in pairs(budgets_by_key) do
    local epoch, used = whole(budget.epoch), whole(budget.used)
    if budget.own > 0 then
      redis.call('HSET', key, 'e', epoch, 'u', used, 'r:' .. me, whole(session) .. ' ' .. whole(budget.own))
    else
      redis.call('HSET', key, 'e', epoch, 'u', used)
      if budget.is_held then redis.call('HDEL', key, 'r:' .. me) end
    end
    for _, field in ipairs(budget.lost) do redis.call('HDEL', key, field) end
    if math.abs(now - budget.kept) > keep / 10 then
      redis.call('HSET', key, 'k', whole(now))
      keep_on(key)
    end
  end
end

local function hear()
  local known = gateways[me]
  if known and known.session == session and now - known.heard < 1000 then return end
  redis.call('HSET', gateways_key, me, whole(now) .. ' ' .. whole(session))
  keep_on(gateways_key)
  for name, gateway in pairs(gateways) do
    if name ~= me and now - gateway.heard > ${10 * lostAfterMs} then redis.call('HDEL', gateways_key, name) end
  end
end
`;

/** The space-separated numbers of a text; false for anything else. */
const packedFunction = `
local function numbers_of(text)
  local numbers, count = {}, 0
  for word in string.gmatch(text, '%S+') do
    count = count + 1
    numbers[count] = tonumber(word) or false
  end
  return numbers
end
`;

/**
 * Counts a request in windows and budgets, or in none. KEYS: the windows of requests, those of tokens, then, with
 * budgets, the gateways and the budgets. ARGV: the number of windows, and of windows of requests; the limit and the
 * length of each window; the limit of each budget; with budgets the gateway and the milliseconds for which they are
 * kept. Then one text with the variable part: the tokens, the time (`-`: the server's own), and with budgets the
 * session, and for each budget the amount to reserve, and the known epoch, use and reservation.
 *
 * Replies `1` with the epoch and the use of each budget, `0 INDEX TOTAL WAIT` for a refusing window, or `2 INDEX
 * IS_EXHAUSTED EPOCH USED` for a refusing budget.
 */
const admitScript = script(`${windowFunctions}${waitFunctions}${budgetFunctions}${packedFunction}
local count, of_one = tonumber(ARGV[1]), tonumber(ARGV[2])
local budget_count = math.max(0, #KEYS - count - 1)
local of_budgets = 2 + 2 * count
local varying = numbers_of(ARGV[#ARGV])
local tokens = varying[1]
set_time(varying[2])

local budgets, amounts = {}, {}
if budget_count > 0 then
  me, keep = ARGV[#ARGV - 2], tonumber(ARGV[#ARGV - 1])
  session = varying[3]
  if not open_gateways(KEYS[count + 1]) then return redis.error_reply('an earlier session') end
  local refused_by, is_exhausted = nil, false
  for i = 1, budget_count do
    local at = 4 * i
    amounts[i] = varying[at]
    local budget = open_budget(KEYS[count + 1 + i], varying[at + 1], varying[at + 2], varying[at + 3])
    budgets[i] = budget
    local limit = tonumber(ARGV[of_budgets + i])
    if not (budget.used + budget.others + budget.own < limit) then
      local exhausted = not (budget.used < limit)
      -- An exhausted budget is the reason that a caller has to know; others end by themselves.
      if not refused_by or (exhausted and not is_exhausted) then refused_by, is_exhausted = i, exhausted end
    end
  end
  if refused_by then
    local budget = budgets[refused_by]
    local kind = is_exhausted and '1' or '0'
    return table.concat({ '2', refused_by - 1, kind, whole(budget.epoch), whole(budget.used) }, ' ')
  end
end

local windows = {}
local function refusal(from, to, amount)
  local refused = false
  for i = from, to do
    windows[i] = open(KEYS[i], tonumber(ARGV[2 + 2 * i]))
    -- Written so that a limit that is no number refuses.
    if not (windows[i].total + amount <= tonumber(ARGV[1 + 2 * i])) then refused = true end
  end
  if not refused then return nil end
  local longest, index = -1, from
  for i = from, to do
    local wait = until_at_most(windows[i], tonumber(ARGV[1 + 2 * i]) - amount)
    if wait > longest then longest, index = wait, i end
  end
  return '0 ' .. (index - 1) .. ' ' .. state_of(windows[index], tonumber(ARGV[1 + 2 * index]))
end
local refused = refusal(1, of_one, 1) or refusal(of_one + 1, count, tokens)
if refused then return refused end

for i = 1, count do add(windows[i], i <= of_one and 1 or tokens) end
for _, window in pairs(by_key) do save(window) end
if budget_count == 0 then return '1' end
local reply = { '1' }
for i = 1, budget_count do
  budgets[i].own = budgets[i].own + amounts[i]
  reply[i + 1] = whole(budgets[i].epoch) .. ' ' .. whole(budgets[i].used)
end
save_budgets()
hear()
return table.concat(reply, ' ')
`);

/**
 * Heartbeat of a gateway. KEYS: the key of all gateways. ARGV: the gateway, the time (empty: the server's own), and a
 * flag, non-empty when it signs off. Replies the number of gateways.
 */
const presenceScript = script(`
local now = tonumber(ARGV[2])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
if ARGV[3] == '' then
  redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', now))
else
  redis.call('HDEL', KEYS[1], ARGV[1])
end
local count, all = 0, redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  if now - tonumber(all[i + 1]) <= ${lostAfterMs} then
    count = count + 1
  else
    redis.call('HDEL', KEYS[1], all[i])
  end
end
redis.call('PEXPIRE', KEYS[1], ${10 * lostAfterMs})
return count
`);

/**
 * Replaces taken amounts by the actual use. KEYS: windows, then, with budgets, the gateways and the budgets. ARGV: the
 * number of windows; the length of each; with budgets the gateway and the milliseconds for which they are kept. Then
 * one text with the variable part: the amount for the windows (negative: give back), the time, and with budgets the
 * session, whether this call enters it, and for each budget the known epoch and use, the amount to add, the amount to
 * release, and the certain reservation afterwards. Without amounts it only reports this gateway's state.
 */
const settleScript = script(`${windowFunctions}${giveBackFunction}${budgetFunctions}${packedFunction}
local count = tonumber(ARGV[1])
local budget_count = math.max(0, #KEYS - count - 1)
local varying = numbers_of(ARGV[#ARGV])
set_time(varying[2])
local delta = varying[1]
if delta ~= 0 then
  local windows = {}
  for i = 1, count do windows[i] = open(KEYS[i], tonumber(ARGV[1 + i])) end
  for i = 1, count do adjust(windows[i], delta) end
  save_adjusted()
end
if #KEYS == count then return 'OK' end
me, keep = ARGV[#ARGV - 2], tonumber(ARGV[#ARGV - 1])
session = varying[3]
-- What an earlier session has not told, the present one has: it began with all that its gateway knows.
if not open_gateways(KEYS[count + 1]) then return 'OK' end
for i = 1, budget_count do
  local at = 5 * i
  local added, released, certain = varying[at + 2], varying[at + 3], varying[at + 4]
  local budget = open_budget(KEYS[count + 1 + i], varying[at], varying[at + 1], 0)
  budget.used = budget.used + added
  budget.own = math.max(budget.own - released, certain)
end
save_budgets()
if varying[4] == 1 then hear() end
return 'OK'
`);

/** The scripts of limits. */
export const limitScripts = {
  take: takeScript,
  adjust: adjustScript,
  admit: admitScript,
  presence: presenceScript,
  settle: settleScript,
};
