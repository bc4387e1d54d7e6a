// The pages for operators and machines, and what they say when a part is away.
import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import { existsSync } from 'node:fs';
import { readFile, readdir } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { chdbMissing } from '../../storage/embedded/chdb-fixture.ts';
import { begin, connect, send } from '../kit/http-kit.ts';
import { eventually, ownerKey, startWeir, stopEverything, type WeirProcess } from '../kit/process-kit.ts';

/** Finding the engine's process takes /proc. */
const noEngine = chdbMissing || (!existsSync('/proc/self/stat') && 'there is no /proc here');
const analytics = { url: chdbMissing ? 'none:' : 'chdb:' };

let weir: WeirProcess;
let guarded: WeirProcess;

const pipelines = [
  { name: 'admin', match: { routes: 'contributed' }, plugins: ['auth', 'management'] },
  { name: 'gateway', match: { path: '/**' }, plugins: ['auth', 'provider', 'logger'] },
];

before(async () => {
  [weir, guarded] = await Promise.all([
    startWeir({ yaml: { version: 1, storage: { analytics, journal: { ship_ms: 50 } }, pipelines } }),
    startWeir({
      yaml: {
        version: 1,
        server: { operations: 'key' },
        storage: { analytics: { url: 'none:' } },
        pipelines: pipelines.slice(1),
      },
    }),
  ]);
});
after(stopEverything);

const page = (path: string) => send(weir.url, { path });

const chat = (body: object = {}) => ({
  path: '/v1/chat/completions',
  headers: { 'x-service-api-key': ownerKey, 'x-service-provider': 'mock' },
  body: { model: 'mock-gpt', messages: [{ role: 'user', content: 'Hello' }], ...body },
});

test('/healthz and /readyz need no key', async () => {
  const health = await page('/healthz');
  assert.deepEqual([health.status, health.json()], [200, { status: 'ok' }]);
  const ready = await page('/readyz');
  assert.deepEqual([ready.status, ready.json().status], [200, 'ready'], ready.text);
  // Requests are served from the start; the analytics engine may take longer to answer for the first time.
  const expected = { status: 'ready', degraded: [], dependencies: { analytics: 'ok', journal: 'ok' } };
  const isWhole = async () => isDeepStrictEqual((await page('/readyz')).json(), expected) || undefined;
  await eventually(isWhole, () => 'an answer of every dependency', 30_000);
});

test('a load balancer may ask in HTTP/1.0, without a host', async (t) => {
  const connection = await connect(t, weir.port);
  connection.write('GET /healthz HTTP/1.0\r\n\r\n');
  assert.match(await connection.ended(), /^HTTP\/1\.1 200 OK\r\n[^]*\r\n\r\n\{"status":"ok"\}$/);
});

test('/status: generation, uptime, and what is under way', async () => {
  const { request, response } = await begin(
    weir.url,
    chat({ model: 'mock:chunk_latency_ms=20,tokens=5000', stream: true }),
  );
  const status = (await page('/status')).json();
  assert.equal(status.status, 'serving');
  assert.match(status.generation, /^[0-9a-f]{8,}$/);
  assert.ok(Number.isInteger(status.uptime_seconds));
  assert.equal(status.active_requests, 1);
  assert.equal(status.config_error, null);
  assert.equal(response.statusCode, 200);
  request.destroy();
  await eventually(async () => ((await page('/status')).json().active_requests === 0 ? true : undefined));
});

test('/metrics counts requests in the format of Prometheus', async () => {
  const count = async (): Promise<number> => {
    const { text, headers } = await page('/metrics');
    assert.match(headers['content-type'] ?? '', /^text\/plain; version=0\.0\.4/);
    for (const line of text.split('\n'))
      assert.match(line, /^(#.*|[a-z_][a-z0-9_]*(\{.*\})? [-+0-9.eNaInf]+|)$/i);
    return text
      .split('\n')
      .filter((line) => /^weir_requests_total\{/.test(line) && line.includes('"200"'))
      .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
  };
  const earlier = await count();
  assert.equal((await send(weir.url, chat())).status, 200);
  await eventually(async () => ((await count()) === earlier + 1 ? true : undefined));
});

test('/metrics shows where the log rows are, until all are stored', { skip: chdbMissing }, async () => {
  const rows = async (state: string): Promise<number> => {
    const line = new RegExp(`^weir_rows_${state}\\{table="requests"\\} (\\d+)$`, 'm').exec(
      (await page('/metrics')).text,
    );
    return Number(line?.[1]);
  };
  const accepted = await rows('accepted_total');
  for (let request = 0; request < 3; request++) await send(weir.url, chat());
  await eventually(async () => ((await rows('stored_total')) === accepted + 3 ? true : undefined));
  assert.equal(await rows('accepted_total'), accepted + 3);
  assert.deepEqual([await rows('pending'), await rows('shed_total')], [0, 0]);
});

test('with server.operations: key, /status and /metrics need an owner’s key; the others stay open', async () => {
  for (const path of ['/status', '/metrics']) {
    const refused = await send(guarded.url, { path });
    assert.equal(refused.status, 401);
    assert.match(refused.json().error.message, /x-service-api-key/);
    assert.equal(
      (await send(guarded.url, { path, headers: { authorization: 'Bearer wk_no_such_key_1234567' } })).status,
      401,
    );
    const ways = [
      ['authorization', `Bearer ${ownerKey}`],
      ['x-service-api-key', ownerKey],
    ];
    for (const headers of ways) {
      assert.equal((await send(guarded.url, { path, headers })).status, 200);
    }
  }
  for (const path of ['/healthz', '/readyz']) assert.equal((await send(guarded.url, { path })).status, 200);
});

test('a contributed route and a proxied path with the names of reserved pages differ', async () => {
  const proxied = await send(weir.url, { ...chat(), path: '/v1/healthz', body: undefined });
  assert.equal(proxied.json().object, 'mock.echo');
});

test(
  'when the analytics engine is killed, /readyz names it, requests go on, and no row is lost',
  { skip: noEngine },
  async () => {
    const engine = await childOf(weir.child.pid ?? 0);
    process.kill(engine, 'SIGKILL');
    const without = await eventually(
      async () => {
        const ready = await page('/readyz');
        assert.equal(ready.status, 200, 'requests are served without it');
        return ready.json().degraded.length > 0 ? ready.json() : undefined;
      },
      () => 'a degraded store in /readyz',
    );
    assert.equal(without.status, 'ready');
    assert.notEqual(without.dependencies.analytics, 'ok');
    const { degraded, dependencies } = (await page('/status')).json();
    assert.deepEqual(degraded, without.degraded);
    assert.equal(dependencies.analytics, without.dependencies.analytics);
    const meanwhile = await send(weir.url, chat());
    assert.equal(meanwhile.status, 200);
    await eventually(
      async () => ((await page('/readyz')).json().degraded.length === 0 ? true : undefined),
      () => `nothing degraded in /readyz; the gateway says:\n${weir.stderr()}`,
      20_000,
    );
    assert.match(weir.stderr(), /analytics engine ended with SIGKILL/);
    const id = meanwhile.headers['x-service-request-id'] as string;
    await eventually(
      async () => {
        const entry = await send(weir.url, {
          path: `/v1/logs/${id}`,
          headers: { 'x-service-api-key': ownerKey },
        });
        return entry.status === 200 ? true : undefined;
      },
      () => 'the row of the request that came while the engine was away',
    );
  },
);

test('SIGTERM ends the gateway and its engine', { skip: noEngine }, async () => {
  const engine = await childOf(weir.child.pid ?? 0);
  const { code, stderr } = await weir.stop();
  assert.equal(code, 0, stderr);
  assert.throws(() => process.kill(engine, 0), { code: 'ESRCH' });
});

/** The process that holds the analytics engine: the only child of the gateway that runs its file. */
async function childOf(parent: number): Promise<number> {
  return eventually(async () => {
    for (const entry of await readdir('/proc')) {
      if (!/^\d+$/.test(entry)) continue;
      const [stat, command] = await Promise.all(
        ['stat', 'cmdline'].map((name) => readFile(`/proc/${entry}/${name}`, 'utf8').catch(() => '')),
      );
      const parentOfEntry = Number(stat?.split(') ').at(-1)?.split(' ')[1]);
      if (parentOfEntry === parent && command?.includes('chdb-child')) return Number(entry);
    }
    return undefined;
  });
}
