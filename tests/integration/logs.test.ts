// Log entries of requests, read back as a user reads them: through the administration API.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { groupColumns, groupings } from '../../core/ports/analytics.ts';
import { type MockServer, serveMock } from '../kit/serve-mock.ts';
import { chdbMissing } from '../../storage/embedded/chdb-fixture.ts';
import { begin, type Received, send } from '../kit/http-kit.ts';
import { type StatefulMcpServer, startStatefulMcpServer } from '../kit/stateful-mcp-server.ts';
import { eventually, ownerKey, startWeir, stopEverything, type WeirProcess } from '../kit/process-kit.ts';

const teamA = 'wk_team_a_0123456789abcdef';
const teamB = 'wk_team_b_0123456789abcdef';
const proxyOnly = 'wk_proxy_0123456789abcdef';

let mock: MockServer;
let tools: StatefulMcpServer;
let weir: WeirProcess;

before(async () => {
  if (chdbMissing) return;
  mock = await serveMock();
  tools = await startStatefulMcpServer({ hasSessions: false, isJson: true });
  const view = ['completions.write', 'logs.view', 'analytics.view'];
  const auth = {
    auth: {
      keys: [
        { name: 'team-a', key: teamA, workspace_id: 'ws-a', scopes: view },
        { name: 'team-b', key: teamB, workspace_id: 'ws-b', scopes: view },
        { name: 'proxy-only', key: proxyOnly, workspace_id: 'ws-a' },
      ],
    },
  };
  weir = await startWeir({
    yaml: {
      version: 1,
      storage: { journal: { ship_ms: 50 } },
      providers: {
        translated: { dialect: 'anthropic-messages', base_url: `${mock.url}/v1`, credentials: 'none' },
        strict: {
          dialect: 'anthropic-messages',
          base_url: `${mock.url}/v1`,
          credentials: 'none',
          on_drop: 'refuse',
        },
        held: {
          dialect: 'anthropic-messages',
          base_url: `${mock.url}/v1`,
          api_key: 'hunter2-held',
          headers: {
            'openai-beta': 'hunter2-beta',
            'x-own': 'hunter2-own',
            'anthropic-version': '2023-06-01',
          },
        },
        remote: { base_url: `${mock.url}/v1`, service: 'openai', credentials: 'none' },
      },
      pipelines: [
        { name: 'admin', match: { routes: 'contributed' }, plugins: [auth, 'management'] },
        {
          name: 'gateway',
          match: { path: '/**' },
          plugins: [
            auth,
            { 'request-parameters': { params: { blockedKeys: ['logit_bias'] } } },
            { mcp: { servers: { adder: { url: tools.url } } } },
            'provider',
            'logger',
          ],
        },
      ],
    },
  });
});
after(async () => {
  await stopEverything();
  if (chdbMissing) return;
  await mock.close();
  await tools.close();
});

interface Asking {
  readonly key?: string;
  readonly provider?: string;
  readonly body?: Record<string, unknown>;
  readonly headers?: Record<string, string>;
}

const hello = { model: 'mock-gpt', messages: [{ role: 'user', content: 'Hello' }] };

function asking({ key = ownerKey, provider = 'mock', body = {}, headers = {} }: Asking) {
  return {
    path: '/v1/chat/completions',
    headers: { 'x-service-api-key': key, 'x-service-provider': provider, ...headers },
    body: { ...hello, ...body },
  };
}

const chat = (given: Asking = {}): Promise<Received> => send(weir.url, asking(given));

/** Calls a tool of the MCP server. */
const add = (): Promise<Received> =>
  send(weir.url, {
    path: '/adder/mcp',
    headers: { 'x-service-api-key': ownerKey, accept: 'application/json, text/event-stream' },
    body: { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'add', arguments: { a: 1, b: 2 } } },
  });

function idOf(received: { headers: Record<string, string | string[] | undefined> }): string {
  const id = received.headers['x-service-request-id'];
  assert.ok(typeof id === 'string', 'an answer without x-service-request-id');
  return id;
}

const read = (path: string, key = ownerKey): Promise<Received> =>
  send(weir.url, { path: `/v1${path}`, headers: { 'x-service-api-key': key } });

/** The log entry; entries are waited for, as they are written when the last byte has been sent. */
async function entry(id: string, key = ownerKey) {
  return eventually(
    async () => {
      const received = await read(`/logs/${id}`, key);
      return received.status === 200 ? received.json() : undefined;
    },
    () => `the entry ${id}; the gateway says:\n${weir.stderr()}`,
  );
}

describe('GET /logs/{id}', { skip: chdbMissing }, () => {
  test('a whole answer: tokens, cost, latency and bodies', async () => {
    const received = await chat();
    assert.equal(received.status, 200);
    const { usage } = received.json();
    const log = await entry(idOf(received));
    assert.equal(log.id, idOf(received));
    assert.equal(log.object, 'log');
    assert.deepEqual(log.request.body, hello);
    assert.deepEqual(log.response.body, received.json());
    const { metrics } = log;
    assert.deepEqual(
      [metrics.prompt_tokens, metrics.completion_tokens, metrics.total_tokens],
      [usage.prompt_tokens, usage.completion_tokens, usage.total_tokens],
    );
    assert.equal(metrics.pricing, 'priced');
    const cost = (usage.prompt_tokens * 0.15 + usage.completion_tokens * 0.6) / 1e6;
    assert.ok(Math.abs(metrics.cost - cost) < 1e-12, `${metrics.cost} is not ${cost}`);
    assert.deepEqual(
      [metrics.status, metrics.outcome, metrics.is_success, metrics.stream, metrics.endpoint],
      [200, 'completed', true, false, 'chat.completions'],
    );
    assert.deepEqual([metrics.provider, metrics.model], ['mock', 'mock-gpt']);
    assert.ok(metrics.latency_ms > 0 && metrics.latency_ms >= metrics.upstream_ms);
    assert.ok(metrics.gateway_ms >= 0);
    assert.doesNotMatch(JSON.stringify(log), new RegExp(ownerKey));
  });

  test('the headers of the request, without what may be secret', async () => {
    const headers = {
      authorization: 'Bearer hunter2-a',
      cookie: 'a=hunter2-b',
      'x-mine': 'hunter2-c',
      'x-service-trace-id': 'trace-of-headers',
      'user-agent': 'told/1.0',
      'x-service-sensitive-headers': 'accept-language',
      'accept-language': 'hunter2-d',
    };
    const log = await entry(idOf(await chat({ provider: 'translated', headers })));
    const { headers: told } = log.request;
    assert.deepEqual(
      [told['x-service-trace-id'], told['user-agent'], told['x-service-provider']],
      ['trace-of-headers', 'told/1.0', 'translated'],
    );
    for (const name of ['authorization', 'cookie', 'x-mine', 'accept-language', 'x-service-api-key'])
      assert.equal(told[name], '***', name);
    assert.doesNotMatch(JSON.stringify(log), new RegExp(`hunter2|${ownerKey}`));
  });

  test('what a translated target was sent, without its credential, and its answer before translation', async () => {
    const headers = { 'user-agent': 'told/1.0' };
    const received = await chat({ provider: 'held', body: { max_tokens: 17 }, headers });
    assert.equal(received.status, 200, received.text);
    const log = await entry(idOf(received));
    const { transformedRequest: sent, originalResponse: answer } = log;
    assert.deepEqual([sent.method, sent.url, sent.truncated], ['POST', `${mock.url}/v1/messages`, false]);
    assert.deepEqual(
      [sent.body.max_tokens, sent.body.messages],
      [17, [{ role: 'user', content: [{ type: 'text', text: 'Hello' }] }]],
    );
    const { headers: told } = sent;
    assert.deepEqual(
      [told['user-agent'], told['content-type'], told['anthropic-version']],
      ['told/1.0', 'application/json', '2023-06-01'],
    );
    assert.deepEqual([told['x-api-key'], told['x-own'], told['openai-beta']], ['***', '***', '***']);
    assert.deepEqual([answer.status, answer.url, answer.body.type], [200, sent.url, 'message']);
    assert.equal(answer.headers['content-type'], 'application/json');
    assert.equal(log.response.body.object, 'chat.completion');
    assert.doesNotMatch(JSON.stringify(log), new RegExp(`hunter2|${ownerKey}`));
  });

  test('a translated stream: what was sent, and no copy of what flowed by', async () => {
    const log = await entry(idOf(await chat({ provider: 'held', body: { stream: true } })));
    assert.equal(log.transformedRequest.body.stream, true);
    assert.equal(log.transformedRequest.body.messages[0].content[0].text, 'Hello');
    assert.equal(log.originalResponse, null);
  });

  test('what a target of the client’s own wire was sent: the very body, and the answer as it came', async () => {
    const log = await entry(idOf(await chat({ provider: 'remote' })));
    const { transformedRequest: sent } = log;
    assert.deepEqual([sent.url, sent.body], [`${mock.url}/v1/chat/completions`, hello]);
    assert.equal(log.originalResponse, null);
    const streamed = await entry(idOf(await chat({ provider: 'remote', body: { stream: true } })));
    assert.deepEqual(streamed.transformedRequest.body.stream_options, { include_usage: true });
    assert.equal(streamed.request.body.stream_options, undefined);
  });

  test('a request that was refused or whose bodies are not kept shows no call', async () => {
    const refused = await entry(idOf(await chat({ body: { logit_bias: { 1: 1 } } })));
    const without = await entry(idOf(await chat({ headers: { 'x-service-debug': 'false' } })));
    for (const log of [refused, without])
      assert.deepEqual([log.transformedRequest, log.originalResponse], [null, null]);
  });

  test('an entry is there as soon as its answer is', async () => {
    const id = idOf(await chat());
    assert.equal((await read(`/logs/${id}`)).status, 200);
  });

  test('a streamed answer: usage although the client did not ask for it', async () => {
    const received = await chat({ body: { stream: true } });
    assert.doesNotMatch(received.text, /"usage":\{/);
    const log = await entry(idOf(received));
    assert.ok(log.metrics.prompt_tokens > 0 && log.metrics.completion_tokens > 0);
    assert.equal(log.metrics.pricing, 'priced');
    assert.equal(log.metrics.stream, true);
    assert.ok(log.metrics.first_token_ms > 0);
    assert.equal(log.metrics.finish_reason, 'stop');
    assert.equal(log.log_format, 'sse');
    assert.match(log.response.body, /data: \[DONE\]/);
  });

  for (const stream of [false, true]) {
    test(`translated${stream ? ', streamed' : ''}: usage, and what the target could not be told`, async () => {
      const received = await chat({ provider: 'translated', body: { seed: 7, presence_penalty: 1, stream } });
      assert.equal(received.status, 200, received.text);
      assert.equal(received.headers['x-service-dropped'], 'presence_penalty, seed');
      const { metrics } = await entry(idOf(received));
      assert.deepEqual(metrics.dropped, ['presence_penalty', 'seed']);
      assert.deepEqual(
        [metrics.provider, metrics.endpoint, metrics.model, metrics.finish_reason, metrics.stream],
        ['translated', 'chat.completions', 'mock-gpt', 'end_turn', stream],
      );
      assert.ok(metrics.prompt_tokens > 0 && metrics.completion_tokens > 0);
      if (stream) assert.ok(metrics.first_token_ms > 0);
    });
  }

  test('on_drop: refuse refuses instead, and asks nobody', async () => {
    const received = await chat({ provider: 'strict', body: { seed: 7 } });
    assert.equal(received.status, 400);
    assert.match(received.text, /cannot be told seed/);
    const { metrics } = await entry(idOf(received));
    assert.deepEqual([metrics.dropped, metrics.outcome], [['seed'], 'refused']);
    assert.equal((await chat({ provider: 'strict' })).status, 200);
  });

  for (const encoding of ['gzip', 'br']) {
    for (const stream of [false, true]) {
      test(`${encoding}, ${stream ? 'streamed' : 'whole'}: usage and readable bodies`, async () => {
        const received = await chat({
          body: {
            model: `mock-gpt:encoding=${encoding}`,
            stream,
            ...(stream && { stream_options: { include_usage: true } }),
          },
        });
        assert.equal(received.headers['content-encoding'], encoding);
        const log = await entry(idOf(received));
        assert.ok(log.metrics.total_tokens > 0);
        assert.match(JSON.stringify(log.response.body), /total_tokens/);
      });
    }
  }

  test('the provider’s refusal: its status and words, no tokens', async () => {
    const received = await chat({ body: { model: 'mock:status=429' } });
    assert.equal(received.status, 429);
    const { metrics, response } = await entry(idOf(received));
    assert.deepEqual(
      [metrics.status, metrics.is_success, metrics.error_source, metrics.total_tokens, metrics.cost],
      [429, false, 'provider', 0, 0],
    );
    assert.deepEqual(response.body, received.json());
  });

  test('a plugin’s refusal names the plugin', async () => {
    const received = await chat({ body: { logit_bias: { 1: 1 } } });
    assert.equal(received.status, 446);
    const { metrics } = await entry(idOf(received));
    assert.deepEqual(
      [metrics.status, metrics.outcome, metrics.error_source, metrics.plugin, metrics.upstream_ms],
      [446, 'refused', 'gateway', 'request-parameters', 0],
    );
  });

  test('a body that is against the rules', async () => {
    const received = await chat({ body: { temperature: 9 } });
    assert.equal(received.status, 400);
    const { metrics } = await entry(idOf(received));
    assert.deepEqual([metrics.status, metrics.error_source, metrics.is_success], [400, 'gateway', false]);
  });

  test('a provider that breaks off before and within its answer', async () => {
    const before = await chat({ body: { model: 'mock:reset_before_head' } });
    assert.equal(before.status, 502);
    const first = (await entry(idOf(before))).metrics;
    assert.deepEqual([first.outcome, first.error_code, first.status], ['failed', 'upstream_reset', 502]);
    const within = await chat({ body: { model: 'mock:reset_after_chunks=2,tokens=50', stream: true } });
    assert.equal(within.complete, false);
    const second = (await entry(idOf(within))).metrics;
    assert.deepEqual(
      [second.outcome, second.error_code, second.is_success],
      ['failed', 'upstream_reset', false],
    );
  });

  test('a client that leaves in mid-stream', async () => {
    const { request, response } = await begin(
      weir.url,
      asking({ body: { model: 'mock:chunk_latency_ms=20,tokens=5000', stream: true } }),
    );
    let came = 0;
    await new Promise<void>((resolve) => response.on('data', () => void (++came === 5 && resolve())));
    request.destroy();
    const { metrics } = await entry(idOf(response));
    assert.deepEqual([metrics.outcome, metrics.is_success, metrics.stream], ['cancelled', false, true]);
    assert.deepEqual([metrics.usage_estimated, metrics.pricing], [true, 'priced']);
    assert.ok(metrics.prompt_tokens > 0 && metrics.completion_tokens > 0 && metrics.cost > 0);
  });

  test('a model without a known price is unpriced, not free', async () => {
    const received = await chat({ provider: 'remote', body: { model: 'house-model-9000' } });
    const { metrics } = await entry(idOf(received));
    assert.deepEqual(
      [metrics.pricing, metrics.cost, metrics.ai_service, metrics.provider],
      ['unpriced', 0, 'openai', 'remote'],
    );
    assert.ok(metrics.total_tokens > 0);
  });

  test('a known model over the network is priced', async () => {
    const received = await chat({ provider: 'remote', body: { model: 'gpt-4o-mini' } });
    const { metrics } = await entry(idOf(received));
    assert.equal(metrics.pricing, 'priced');
    assert.ok(metrics.cost > 0);
    assert.equal(metrics.upstream_host, new URL(mock.url).host);
  });

  test('what is passed through without being understood: a list of files', async () => {
    const received = await send(weir.url, {
      path: '/v1/files?purpose=batch',
      headers: { 'x-service-api-key': ownerKey, 'x-service-provider': 'mock' },
    });
    assert.equal(received.status, 200);
    const log = await entry(idOf(received));
    const { metrics } = log;
    assert.deepEqual(
      [metrics.status, metrics.outcome, metrics.is_success, metrics.total_tokens, metrics.cost],
      [200, 'completed', true, 0, 0],
    );
    assert.ok(metrics.latency_ms > 0);
    // Without its query: some providers take keys there.
    assert.deepEqual([log.request.method, log.request.url], ['GET', '/v1/files']);
    assert.deepEqual(log.response.body, received.json());
  });

  test('metadata and trace of the caller; no bodies when it does not want them', async () => {
    const received = await chat({
      headers: {
        'x-service-metadata': '{"_user":"u-1","team":"blue"}',
        'x-service-trace-id': 'trace-7',
        'x-service-debug': 'false',
      },
    });
    const log = await entry(idOf(received));
    assert.equal(log.metrics.metadata.team, 'blue');
    assert.equal(log.metrics.trace_id, 'trace-7');
    assert.deepEqual([log.log_format, log.request.body, log.response.body], ['none', null, null]);
  });

  test('an integer beyond 2^53 keeps its digits', async () => {
    const raw = `{"model":"mock-gpt","seed":9223372036854775807,"messages":[{"role":"user","content":"Hello"}]}`;
    const received = await send(weir.url, {
      ...asking({}),
      headers: { ...asking({}).headers, 'content-type': 'application/json' },
      body: raw,
    });
    const log = await entry(idOf(received));
    assert.match(JSON.stringify(log.request.body), /9223372036854775807/);
  });

  test('an id that is none, and one that nobody has', async () => {
    assert.equal((await read('/logs/no-uuid')).status, 400);
    const unknown = await read('/logs/00000000-0000-4000-8000-000000000000');
    assert.equal(unknown.status, 404);
    assert.deepEqual(unknown.json().success, false);
    assert.match(unknown.json().data.message, /00000000-0000-4000-8000-000000000000/);
  });
});

describe('who may read what', { skip: chdbMissing }, () => {
  test('a workspace’s key sees its workspace alone; the owner sees all', async () => {
    const ofA = idOf(await chat({ key: teamA }));
    const ofB = idOf(await chat({ key: teamB }));
    assert.equal((await entry(ofA, teamA)).workspace_id, 'ws-a');
    assert.equal((await entry(ofB)).workspace_id, 'ws-b');
    assert.equal((await read(`/logs/${ofB}`, teamA)).status, 404);
    assert.equal((await read(`/logs/${ofA}`, teamB)).status, 404);
    const groups = async (key: string) =>
      (await read('/analytics/groups/workspace', key))
        .json()
        .data.map(({ workspace }: { workspace: string }) => workspace)
        .sort();
    assert.deepEqual(await groups(teamA), ['ws-a']);
    assert.deepEqual(await groups(teamB), ['ws-b']);
    const all = await groups(ownerKey);
    assert.ok(all.includes('ws-a') && all.includes('ws-b'));
  });

  test('a key without the scope is refused, and so is nobody', async () => {
    const id = idOf(await chat({ key: proxyOnly }));
    assert.equal((await read(`/logs/${id}`, proxyOnly)).status, 403);
    assert.equal((await read('/analytics/groups/model', proxyOnly)).status, 403);
    assert.equal((await send(weir.url, { path: `/v1/logs/${id}` })).status, 401);
    assert.equal((await entry(id)).metrics.api_key_id, 'proxy-only');
  });
});

describe('groups', { skip: chdbMissing }, () => {
  const said = (metadata: object) => ({ 'x-service-metadata': JSON.stringify(metadata) });
  before(async () => {
    await entry(idOf(await chat({ headers: said({ shelf: 'oak', '<b>row': '1' }) })));
    await entry(idOf(await chat({ headers: said({ shelf: 'elm' }) })));
    const virtual = { 'x-service-api-key': ownerKey, 'x-service-virtual-key': 'remote' };
    await entry(idOf(await send(weir.url, { ...asking({}), headers: virtual })));
    await entry(idOf(await chat({ body: { model: 'mock:status=500' } })));
    await entry(idOf(await add()));
  });

  for (const by of groupings) {
    for (const area of ['analytics', 'logs']) {
      test(`/${area}/groups/${by}: the count alone, and every column`, async () => {
        const plain = await read(`/${area}/groups/${by}`);
        assert.equal(plain.status, 200, plain.text);
        const { data, object, total } = plain.json();
        assert.equal(object, 'list');
        assert.equal(total, data.length);
        assert.ok(data.length > 0);
        for (const group of data) assert.deepEqual(Object.keys(group).sort(), [by, 'requests'].sort());
        const full = await read(`/${area}/groups/${by}?columns=${groupColumns.join(',')}`);
        assert.equal(full.status, 200, full.text);
        for (const group of full.json().data) {
          assert.deepEqual(Object.keys(group).sort(), [by, 'requests', ...groupColumns].sort());
        }
      });
    }
  }

  test('names of metadata and virtual keys, with the number of requests that have each', async () => {
    const counts = async (by: string): Promise<Record<string, number>> => {
      const { data } = (await read(`/analytics/groups/${by}?page_size=500`)).json();
      return Object.fromEntries(data.map((group: Record<string, number>) => [group[by], group['requests']]));
    };
    const { shelf, '<b>row': row } = await counts('metadata_key');
    assert.deepEqual([shelf, row], [2, 1]);
    assert.equal((await counts('virtual_key'))['remote'], 1);
    const woods = await read('/analytics/groups/metadata_key?metadata={"shelf":"elm"}');
    assert.deepEqual(woods.json().data, [{ metadata_key: 'shelf', requests: 1 }]);
  });

  for (const column of groupColumns) {
    test(`the column ${column} alone`, async () => {
      const received = await read(`/analytics/groups/model?columns=${column}`);
      const [group] = received.json().data;
      assert.deepEqual(Object.keys(group).sort(), [column, 'model', 'requests'].sort());
    });
  }

  test('the figures are those of the entries', async () => {
    const model = 'mock-figures';
    const ids = [];
    for (const stream of [false, true, false]) ids.push(idOf(await chat({ body: { model, stream } })));
    const entries = await Promise.all(ids.map((id) => entry(id)));
    const received = await read(`/analytics/groups/model?columns=${groupColumns.join(',')}&page_size=500`);
    const group = received.json().data.find((one: { model: string }) => one.model === model);
    const sum = (name: string): number => entries.reduce((total, { metrics }) => total + metrics[name], 0);
    const near = (actual: number, expected: number): void =>
      assert.ok(
        Math.abs(actual - expected) <= Math.abs(expected) * 1e-3 + 1e-9,
        `${actual} is not ${expected}`,
      );
    assert.equal(group.requests, 3);
    assert.equal(group.total_tokens, sum('total_tokens'));
    near(group.cost, sum('cost'));
    near(group.avg_latency, sum('latency_ms') / 3);
    near(group.avg_input_tokens, sum('prompt_tokens') / 3);
    near(group.avg_output_tokens, sum('completion_tokens') / 3);
    near(group.avg_tokens, sum('total_tokens') / 3);
    assert.deepEqual([group.success_rate, group.error_count], [1, 0]);
    assert.ok(group.p99_latency >= group.p95_latency && group.p95_latency > 0);
    const times = entries.map((log) => log.created_at).sort();
    assert.deepEqual([group.first_seen, group.last_seen], [times[0], times[2]]);
  });

  test('statuses are numbers, and errors are counted', async () => {
    const received = await read('/analytics/groups/status_code?columns=error_count,success_rate');
    const groups = received.json().data as { status_code: number; error_count: number; requests: number }[];
    const failed = groups.find(({ status_code: status }) => status === 500);
    assert.ok(failed && failed.error_count === failed.requests);
  });

  test('pages do not overlap', async () => {
    const first = (await read('/analytics/groups/model?page_size=1')).json();
    const second = (await read('/analytics/groups/model?page_size=1&current_page=1')).json();
    assert.deepEqual([first.data.length, second.data.length], [1, 1]);
    assert.notEqual(first.data[0].model, second.data[0].model);
    assert.ok(first.total > 1);
  });

  test('a window without requests is empty', async () => {
    const window = 'time_of_generation_min=2020-01-01T00:00:00Z&time_of_generation_max=2020-01-02T00:00:00Z';
    assert.deepEqual((await read(`/analytics/groups/model?${window}`)).json().data, []);
  });

  for (const [wrong, path, hint] of [
    ['a grouping', '/analytics/groups/modell', /Did you mean "model"/],
    ['a column', '/analytics/groups/model?columns=costs', /Did you mean "cost"/],
    ['a time', '/analytics/groups/model?time_of_generation_min=tomorrow', /time_of_generation_min/],
    ['a page size', '/analytics/groups/model?page_size=0', /page_size/],
    ['a parameter', '/analytics/groups/model?colums=cost', /colums/],
  ] as const) {
    test(`${wrong} that does not exist is explained`, async () => {
      const received = await read(path);
      assert.equal(received.status, 400);
      assert.match(received.json().data.message, hint);
    });
  }
});
