import { randomUUID } from 'node:crypto';
import type { BodyRow, RequestRow } from '../../core/ports/request-row.ts';
import { chanceOf } from '../../scripts/seed-demo/chance.ts';

/** The day in which the rows of these tests lie. */
export const dayStart = Date.UTC(2026, 4, 17);

/** Texts that have broken stores before: quotes, escapes, placeholders, control characters, other scripts. */
export const hostileTexts: readonly string[] = [
  "'; DROP TABLE requests; --",
  "\\'; DROP TABLE requests; --",
  '" OR ""="',
  '`name` {organisation:String} {x',
  'tab\t newline\n return\r nul\0 bell\x07 delete\x7f',
  String.raw`\N \0 \x41 \u0041 \\ \' \t`,
  '😀 表 é عربي \u202e \ufeff \uffff',
  '/* -- # $a$ */ ; %',
  ' leading and trailing ',
  'null',
  '__proto__',
  'x'.repeat(5000),
];

/** A time as rows carry it: `YYYY-MM-DD HH:MM:SS.mmm` in UTC. */
export function storedTime(ms: number): string {
  return new Date(ms).toISOString().replace('T', ' ').replace('Z', '');
}

/** A complete row with a new id; give what matters. */
export function requestRow(given: Partial<RequestRow> = {}): RequestRow {
  return {
    id: randomUUID(),
    created_at: storedTime(dayStart + 43_200_123),
    organisation_id: 'organisation',
    workspace_id: 'workspace',
    api_key_id: 'key',
    user_id: 'user',
    method: 'POST',
    path: '/v1/chat/completions',
    endpoint: 'chat.completions',
    stream: false,
    status: 200,
    outcome: 'completed',
    is_success: true,
    error_code: '',
    error_source: '',
    error_message: '',
    plugin: '',
    ai_service: 'openai',
    provider: 'openai',
    model_requested: 'gpt-x',
    model: 'gpt-x-2026',
    mcp_server: '',
    mcp_tool: '',
    upstream_host: 'api.openai.com',
    config: '',
    config_version: '',
    prompt: '',
    prompt_version: '',
    virtual_key: '',
    cache_status: '',
    generation: '0123456789ab',
    latency_ms: 123.456789,
    upstream_ms: 120.25,
    gateway_ms: 3.206789,
    first_byte_ms: 0.1,
    first_token_ms: 50,
    request_bytes: 1234,
    response_bytes: 4_294_967_296,
    prompt_tokens: 10,
    completion_tokens: 20,
    total_tokens: 30,
    cached_tokens: 1,
    cache_write_tokens: 2,
    reasoning_tokens: 3,
    input_audio_tokens: 4,
    output_audio_tokens: 5,
    usage_estimated: true,
    cost: '0.000123000000',
    lost_cost: '0.000000500000',
    pricing: 'priced',
    price_version: '2026-05',
    attempts: 1,
    option: 'config.targets[1]',
    retries: -1,
    tries: '[{"option":"config.targets[1]","status":500}]',
    decision: '{"config":"slug \\"quoted\\""}',
    guardrails: '',
    limits: [],
    resent: false,
    finish_reason: 'stop',
    dropped: [],
    metadata: { team: 'a', 'with space': 'b' },
    trace_id: '0af7651916cd43dd8448eb211c80319c',
    span_id: 'b7ad6b7169203331',
    parent_span_id: '',
    span_name: '',
    client_address: '127.0.0.1',
    user_agent: 'test/1',
    sdk: '',
    source: '',
    ...given,
  };
}

/** The body that belongs to a row. */
export function bodyRow(request: RequestRow, given: Partial<BodyRow> = {}): BodyRow {
  return {
    id: request.id,
    created_at: request.created_at,
    organisation_id: request.organisation_id,
    workspace_id: request.workspace_id,
    request: '{}',
    response: '{}',
    request_truncated: false,
    response_truncated: true,
    log_format: 'json',
    request_headers: '{"host":"h"}',
    provider_call: '{"request":{"method":"POST","url":"https://h/v1","headers":{},"body":"{\\"a\\":1}"}}',
    ...given,
  };
}

/** Rows as the journal ships them. */
export function ndjson(rows: readonly object[]): Buffer {
  return Buffer.from(rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
}

/** Rows that differ in everything that groups and columns look at; the same on every run. */
export function randomRows(count: number, organisationId: string): RequestRow[] {
  const random = chanceOf(20_260_517);
  const below = (bound: number): number => Math.floor(random() * bound);
  const one = <T>(values: readonly T[]): T => values[below(values.length)] as T;
  const called = chanceOf(20_260_518);
  const said = chanceOf(20_260_519);
  const names = ['team', '_user', '', ...hostileTexts];
  return Array.from({ length: count }, () => {
    const outcome = one(['completed', 'completed', 'completed', 'refused', 'failed', 'cancelled'] as const);
    const status = outcome === 'completed' ? one([200, 201, 404, 500]) : one([200, 401, 429, 446, 499, 502]);
    const [prompt_tokens, completion_tokens] = [below(5000), below(900)];
    return requestRow({
      created_at: storedTime(dayStart + below(86_400_000)),
      organisation_id: organisationId,
      workspace_id: one(['alpha', 'beta', '']),
      outcome,
      status,
      is_success: outcome === 'completed' && status < 300,
      ai_service: one(['openai', 'anthropic', 'mock']),
      provider: one(['openai', '@team/openai', 'größe', "it's"]),
      model: one([...hostileTexts, 'gpt', 'claude', '']),
      api_key_id: one(['k1', 'k2', 'k3']),
      config: `config-${below(17)}`,
      prompt: one(['', 'welcome', 'p\\2']),
      cache_status: one(['', 'MISS', 'HIT', 'SEMANTIC HIT', 'DISABLED']),
      latency_ms: below(10_000_000) / 1000,
      prompt_tokens,
      completion_tokens,
      total_tokens: prompt_tokens + completion_tokens,
      cost: `${below(3)}.${String(below(1_000_000)).padStart(6, '0')}${String(below(1_000_000)).padStart(6, '0')}`,
      ...(called() < 0.3 && { endpoint: 'mcp.tools.call', mcp_server: 'tickets', mcp_tool: 'search' }),
      ...(called() < 0.1 && {
        endpoint: 'mcp.tools.call',
        mcp_server: 'files',
        mcp_tool: hostileTexts[0] as string,
      }),
      ...(called() < 0.1 && { endpoint: 'mcp.tools.list', mcp_server: 'files', mcp_tool: '' }),
      virtual_key: ['', 'vk', hostileTexts[5] as string][Math.floor(said() * 3)] as string,
      // One in three has none.
      metadata:
        said() < 1 / 3
          ? {}
          : Object.fromEntries(
              names.filter(() => said() < 0.3).map((name) => [name, said() < 0.5 ? 'a' : '']),
            ),
    });
  });
}
