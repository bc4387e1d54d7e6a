/**
 * Statements that generate the rows of one block inside the engine. Every choice is a hash of the seed, of the row's
 * number (or of the number of the first row of its trace) and of the choice's own number, so that a block always has
 * the same rows.
 */

/** A number from 0 to 1, independent for each `choice`; `of` is the row `n`, or its trace `e`. */
const chance = (of: 'n' | 'e', choice: number): string =>
  `(cityHash64(${of}, {seed:UInt64}, ${choice}) / 18446744073709551616.)`;
/** Normally distributed around 0. */
const normal = (choice: number): string =>
  `(sqrt(-2 * log(${chance('n', choice)} + 1e-12)) * cos(6.283185307179586 * ${chance('n', choice + 1)}))`;
const pick = (list: string, type: string, place: string): string =>
  `arrayElement({${list}:Array(${type})}, ${place})`;
/** Drawn position, from 1 on, in a list with as many lots as the parameter of this name holds. */
const draw = (urn: string, of: 'n' | 'e', choice: number): string =>
  `1 + arrayElement({${urn}:Array(UInt16)}, 1 + toUInt32(floor(${chance(of, choice)} * length({${urn}:Array(UInt16)}))))`;
const idOf = (number: string, kind: number): string =>
  `reinterpretAsUUID(concat(reinterpretAsFixedString(cityHash64(${number}, {seed:UInt64}, {origin:UInt64}, ${kind})), reinterpretAsFixedString(bitOr(bitAnd(sipHash64(${number}, {seed:UInt64}, {origin:UInt64}, ${kind}), 0x3fffffffffffffff), 0x8000000000000000))))`;

/**
 * Expressions of a request, in steps that build on earlier ones: each step is a separate query, because the engine
 * repeats an expression for every use of its name in the same one.
 */
const steps: readonly Readonly<Record<string, string>>[] = [
  { group_k: 'intDiv(k, 6) * 6' },
  {
    // Rows are in groups of six, and the first few of a group may be the spans of one trace.
    group_spans:
      '[1, 1, 1, 1, 1, 1, 2, 3, 4, 6][1 + cityHash64(group_k + {first:UInt64}, {seed:UInt64}, 1) % 10]',
    in_group: 'k - group_k',
  },
  { in_trace: 'in_group < group_spans' },
  {
    root_k: 'toUInt32(if(in_trace, group_k, k))',
    span: 'toInt64(if(in_trace, in_group, 0))',
    spans: 'if(in_trace, group_spans, 1)',
  },
  {
    e: '{first:UInt64} + root_k',
    place: 'arrayLastIndex(before -> before <= root_k, {before:Array(UInt32)})',
  },
  {
    starts_at: pick('starts', 'Int64', 'place'),
    place_before: pick('before', 'UInt32', 'place'),
    place_rows: pick('sizes', 'UInt32', 'place'),
    key: draw('keyUrn', 'e', 4),
    model_asked: draw('modelUrn', 'n', 7),
    model_other: draw('modelUrn', 'n', 11),
  },
  {
    root_at: `starts_at + toInt64({spanMs:UInt32} * (root_k - place_before + ${chance('e', 2)}) / place_rows)`,
    user: `(key - 1) * 10 + 1 + toUInt32(floor(10 * least(${chance('e', 5)}, ${chance('e', 6)})))`,
    service_asked: `1 + ${pick('modelServices', 'UInt16', 'model_asked')}`,
    is_embedding: `${pick('outputPrices', 'UInt64', 'model_asked')} = 0`,
    has_config: 'key % 3 = 0',
    // A model without text output does not answer requests for text.
    answering: `if(${pick('outputPrices', 'UInt64', 'model_other')} = 0, 1, model_other)`,
  },
  { at: `least(root_at + span * toInt64(700 + 900 * ${chance('n', 3)}), {to:Int64} - 1)` },
  { is_outage: 'cityHash64(intDiv(at, 7200000), service_asked, {seed:UInt64}) % 100 < 3' },
  { is_failing: `${chance('n', 8)} < if(is_outage, 0.35, 0.012)` },
  { by_fallback: `is_failing AND has_config AND ${chance('n', 9)} < 0.75` },
  { by_retry: `is_failing AND NOT by_fallback AND ${chance('n', 10)} < 0.45` },
  {
    is_failed: 'is_failing AND NOT by_fallback AND NOT by_retry',
    model_used: 'if(by_fallback AND NOT is_embedding, answering, model_asked)',
    verdict: chance('n', 12),
  },
  {
    status_now: `multiIf(is_failed, [500, 503, 429, 529, 408][1 + toUInt32(floor(5 * ${chance('n', 13)}))], verdict < 0.006, 400, verdict < 0.008, 429, verdict < 0.011, 446, verdict < 0.012, 401, 200)`,
    service_used: `1 + ${pick('modelServices', 'UInt16', 'model_used')}`,
    input_price: pick('inputPrices', 'UInt64', 'model_used'),
    output_price: pick('outputPrices', 'UInt64', 'model_used'),
    first_token: pick('firstTokenMs', 'Float64', 'model_used'),
    token_ms: pick('tokenMs', 'Float64', 'model_used'),
    slowness: `exp(0.38 * ${normal(21)})`,
    hit: chance('n', 14),
  },
  {
    is_ok: 'status_now = 200',
    is_refused: 'status_now IN (446, 401) OR (status_now = 429 AND NOT is_failed)',
    cached: `multiIf(status_now != 200 OR is_failing OR key % 4 > 1, '', hit < 0.13, 'HIT', hit < 0.17, 'SEMANTIC HIT', 'MISS')`,
    is_stream: `NOT is_embedding AND ${chance('n', 15)} < 0.55`,
    tokens_in: `toUInt64(least(120000, exp(6.3 + 1.0 * ${normal(16)}))) + 12`,
    tokens_out: `if(is_embedding OR status_now != 200, 0, toUInt64(least(8000, exp(5.1 + 0.9 * ${normal(18)}))) + 1)`,
    // Failed attempts take time too.
    lost_ms: 'slowness * multiIf(by_retry, 900, by_fallback, 2400, is_failed, 1500, 0)',
  },
  {
    is_hit: "cached IN ('HIT', 'SEMANTIC HIT')",
    tokens_cached: `if(NOT is_embedding AND is_ok AND ${chance('n', 20)} < 0.2, intDiv(tokens_in, 2), 0)`,
  },
  {
    first_ms: 'round(if(is_hit, 0, first_token * slowness), 3)',
    provider_ms:
      'round(if(is_hit OR is_refused, 0, (first_token + tokens_out * token_ms * 0.9) * slowness + lost_ms), 3)',
    own_ms: `round(1.2 + 2.5 * ${chance('n', 23)} * ${chance('n', 24)} + if(is_hit, 3 * slowness, 0), 3)`,
    price:
      'if(is_hit OR NOT is_ok, 0, (tokens_in - tokens_cached) * input_price + intDiv(tokens_cached * input_price, 2) + tokens_out * output_price)',
  },
];

/** All expressions for the rows of the block that match the condition on `n`. */
const known = (condition: string): string =>
  steps.reduce(
    (inner, columns) =>
      `SELECT *, ${Object.entries(columns)
        .map(([name, sql]) => `${sql} AS ${name}`)
        .join(', ')} FROM (${inner})`,
    `SELECT number AS n, toUInt32(n - {first:UInt64}) AS k FROM numbers({first:UInt64}, {rows:UInt32}) WHERE ${condition}`,
  );

const time = "fromUnixTimestamp64Milli(at, 'UTC')";
const workspace = pick('keyWorkspaces', 'String', 'key');
const modelName = (place: string): string => pick('models', 'String', place);
const service = (place: string): string => pick('services', 'String', place);

/** The attempts of a request, each with the number of its target and its status. */
const attemptsOf = (...attempts: readonly (readonly [target: number, status: number])[]): string =>
  `'${JSON.stringify(
    attempts.map(([target, status], place) => {
      return { option: `config.targets[${target}]`, start_ms: place * 1000, status };
    }),
  )}'`;

const requestColumns: Readonly<Record<string, string>> = {
  id: idOf('n', 1),
  created_at: time,
  stored_at: time,
  organisation_id: '{organisation:String}',
  workspace_id: workspace,
  api_key_id: pick('keys', 'String', 'key'),
  user_id: `if(key % 2 = 0, ${pick('users', 'String', 'user')}, '')`,
  method: "'POST'",
  path: "if(is_embedding, '/v1/embeddings', '/v1/chat/completions')",
  endpoint: "if(is_embedding, 'embeddings', 'chat.completions')",
  stream: 'is_stream',
  status: 'status_now',
  outcome: "multiIf(is_refused, 'refused', status_now >= 500, 'failed', 'completed')",
  is_success: 'status_now = 200',
  error_code:
    "multiIf(status_now = 200, '', status_now = 446, 'hooks_failed', status_now = 401, 'key_invalid', is_refused, 'rate_limited', status_now = 408, 'request_timeout', 'provider_error')",
  error_source: "multiIf(status_now = 200, '', is_refused OR status_now = 408, 'gateway', 'provider')",
  error_message:
    "multiIf(status_now = 200, '', status_now = 446, 'A guardrail refused the request.', status_now = 429, 'Rate limit reached.', status_now >= 500, 'The provider is overloaded. Try again later.', 'The request was refused.')",
  plugin: "multiIf(status_now = 446, 'guardrails', status_now = 401, 'auth', is_refused, 'rate-limit', '')",
  ai_service: service('service_used'),
  provider: service('service_used'),
  model_requested: modelName('model_asked'),
  model: modelName('model_used'),
  upstream_host: `if(is_hit OR is_refused, '', ${pick('hosts', 'String', 'service_used')})`,
  config: "if(has_config, 'main-with-fallback', '')",
  config_version: "if(has_config, '3', '')",
  prompt: "if(key % 5 = 1, concat('prompt-', toString(key % 7)), '')",
  prompt_version: "if(key % 5 = 1, '2', '')",
  virtual_key: `concat(${service('service_used')}, '-shared')`,
  cache_status: "if(cached = '' AND status_now = 200, 'DISABLED', cached)",
  generation: '{mark:String}',
  latency_ms: 'provider_ms + own_ms',
  upstream_ms: 'provider_ms',
  gateway_ms: 'own_ms',
  first_byte_ms: 'if(is_refused OR is_hit, 0, round(first_ms * 0.97, 3))',
  first_token_ms: 'if(is_ok, first_ms, 0)',
  request_bytes: 'tokens_in * 4 + 310',
  response_bytes: 'tokens_out * 5 * (1 + 12 * is_stream) + 420',
  prompt_tokens: 'if(status_now = 200, tokens_in, 0)',
  completion_tokens: 'tokens_out',
  total_tokens: 'if(status_now = 200, tokens_in, 0) + tokens_out',
  cached_tokens: 'tokens_cached',
  cache_write_tokens: '0',
  reasoning_tokens: `if(${modelName('model_used')} IN ('o4-mini', 'deepseek-reasoner'), intDiv(tokens_out, 2), 0)`,
  cost: "CAST(toDecimal128(price, 0) * toDecimal128('0.000000000001', 12), 'Decimal(18, 12)')",
  pricing: "if(status_now = 200, 'priced', 'none')",
  price_version: "'demo'",
  attempts: 'multiIf(is_hit OR is_refused, 0, is_failed, 3, is_failing, 2, 1)',
  option:
    "multiIf(NOT has_config OR is_hit OR is_refused, '', by_fallback OR is_failed, 'config.targets[1]', 'config.targets[0]')",
  retries: 'multiIf(is_failed, -1, by_retry, 1, 0)',
  tries: `multiIf(NOT (has_config AND is_failing), '', by_retry, ${attemptsOf([0, 503], [0, 200])}, by_fallback, ${attemptsOf([0, 503], [1, 200])}, ${attemptsOf([0, 503], [1, 503])})`,
  finish_reason: `multiIf(status_now != 200 OR is_embedding, '', ${chance('n', 25)} < 0.05, 'length', ${chance('n', 25)} < 0.13, 'tool_calls', 'stop')`,
  metadata: `map('team', ${pick('keyTeams', 'String', 'key')}, 'environment', ${pick('keyEnvironments', 'String', 'key')}, '_user', ${pick('userNames', 'String', 'user')})`,
  trace_id: `lower(hex(${idOf('e', 2)}))`,
  span_id: 'lower(hex(cityHash64(n, {seed:UInt64}, 26)))',
  parent_span_id: "if(span = 0, '', lower(hex(cityHash64(e, {seed:UInt64}, 26))))",
  span_name: "if(spans = 1, '', ['plan', 'retrieve', 'answer', 'check', 'revise', 'summarise'][span + 1])",
  client_address:
    "concat('10.', toString(key % 4), '.', toString(intDiv(user, 256)), '.', toString(user % 256))",
  user_agent:
    "['OpenAI/Python 1.99.0', 'OpenAI/JS 5.12.0', 'Anthropic/Python 0.60.0', 'python-requests/2.32.3'][1 + key % 4]",
  sdk: "['openai-python 1.99.0', 'openai-js 5.12.0', 'anthropic-python 0.60.0', ''][1 + key % 4]",
};

/** Words of a text that differs between rows and is constant per row. */
const words = (count: string, choice: number): string =>
  `arrayStringConcat(arrayMap(place -> ['the', 'river', 'carries', 'less', 'water', 'than', 'last', 'year', 'and', 'our', 'customer', 'asks', 'whether', 'the', 'invoice', 'of', 'March', 'can', 'be', 'paid', 'later', 'please', 'summarise', 'what', 'happened', 'in', 'three', 'sentences', 'without', 'technical', 'terms', 'measured'][1 + cityHash64(n, place, ${choice}) % 32], range(toUInt32(${count}))), ' ')`;

const bodyColumns: Readonly<Record<string, string>> = {
  id: idOf('n', 1),
  created_at: time,
  organisation_id: '{organisation:String}',
  workspace_id: workspace,
  request: `concat('{"model":"', ${modelName('model_asked')}, '",', if(is_embedding, '"input":"', '"messages":[{"role":"system","content":"You answer in short sentences."},{"role":"user","content":"'), ${words(`120 + 160 * ${chance('n', 28)}`, 29)}, if(is_embedding, '"}', '"}],"temperature":0.2}'))`,
  response: `if(status_now != 200, concat('{"error":{"message":"The request failed.","code":"', toString(status_now), '"}}'), concat('{"id":"chatcmpl-', hex(cityHash64(n)), '","object":"chat.completion","model":"', ${modelName('model_used')}, '","choices":[{"index":0,"message":{"role":"assistant","content":"', ${words(`60 + 100 * ${chance('n', 30)}`, 31)}, '"},"finish_reason":"stop"}],"usage":{"prompt_tokens":', toString(tokens_in), ',"completion_tokens":', toString(tokens_out), '}}'))`,
  request_truncated: 'false',
  response_truncated: 'false',
  log_format: "'json'",
};

const feedbackColumns: Readonly<Record<string, string>> = {
  id: idOf('n', 3),
  created_at: "fromUnixTimestamp64Milli(least(at + 45000, {to:Int64} - 1), 'UTC')",
  feedback_id: idOf('n', 4),
  revision: '1',
  organisation_id: '{organisation:String}',
  workspace_id: workspace,
  api_key_id: pick('keys', 'String', 'key'),
  user_id: `if(key % 2 = 0, ${pick('users', 'String', 'user')}, '')`,
  trace_id: `lower(hex(${idOf('e', 2)}))`,
  value: `multiIf(status_now != 200, -1, ${chance('n', 32)} < 0.82, 1, ${chance('n', 32)} < 0.9, 5, -1)`,
  weight: '1',
  metadata: `concat('{"_user":"', ${pick('userNames', 'String', 'user')}, '"}')`,
};

const insert = (
  table: string,
  columns: Readonly<Record<string, string>>,
  { those = '1', where = '1' }: { readonly those?: string; readonly where?: string } = {},
): string =>
  `INSERT INTO ${table} (${Object.keys(columns).join(', ')}) SELECT ${Object.values(columns).join(', ')} FROM (${known(those)}) WHERE ${where}`;

/** One statement per table; requests come last, so that a block with requests is complete. */
export const demoInserts = {
  bodies: insert('bodies', bodyColumns, { those: `${chance('n', 27)} < {bodies:Float64}` }),
  feedback: insert('feedback', feedbackColumns, { those: `${chance('n', 33)} < 0.02`, where: 'span = 0' }),
  requests: insert('requests', requestColumns),
} as const;
