/** `server.workers`: several processes on one port, which a client cannot tell from one. */
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { makeHome, saidBy, startGateway, type GatewayProcess, type Home } from '../kit/gateway-process.ts';
import { connect } from '../kit/http-kit.ts';
import { call, chat, makePremises, operate } from '../kit/operator.ts';
import { eventually, ownerKey, runWeir, startWeir, stopEverything, sumOfSeries } from '../kit/process-kit.ts';
import { redisMissing, startRedis, type RedisServer } from '../kit/redis-server.ts';
import { defaultRuntime } from '../kit/runtimes.ts';
import { SteadyLoad } from '../kit/steady-load.ts';

const onNode = defaultRuntime === 'node' ? false : 'Deno cannot share a port between processes';
const mock = { model: 'mock-gpt', headers: { 'x-service-provider': 'mock' } };

/** What /status says of a worker. */
interface WorkerEntry {
  readonly worker: number;
  readonly pid: number;
  readonly generation: string;
}

const workersOf = async (gateway: GatewayProcess): Promise<readonly WorkerEntry[]> =>
  (await gateway.status())['workers'] as readonly WorkerEntry[];

async function counted(gateway: GatewayProcess, name: string, label = ''): Promise<number> {
  return sumOfSeries(await (await fetch(`${gateway.url}/metrics`)).text(), name, label);
}

describe('two workers with embedded stores', { skip: onNode, timeout: 300_000 }, () => {
  let home: Home;
  let gateway: GatewayProcess;
  const configuration = (prefix: string): string => `version: 1
server: { port: 8787, workers: 2 }
storage: { resources: { url: "pglite:" } }
pipelines:
  - name: admin
    match: { routes: contributed }
    plugins: [auth, management]
  - name: gateway
    match: { path: /** }
    plugins: [auth, { add-prefix: { prefix: "${prefix}: " } }, policies, { cache: { mode: config } }, provider, { logger: { bodies: true } }]
`;

  before(async () => {
    home = await makeHome(configuration('zero'));
    gateway = await startGateway(home);
  });
  after(async () => {
    await stopEverything();
    await home.remove();
  });

  test('both serve, and the operational pages speak for all', async () => {
    const workers = await workersOf(gateway);
    assert.deepEqual(workers.map(({ worker }) => worker).sort(), [1, 2]);
    assert.equal(new Set([gateway.pid, ...workers.map(({ pid }) => pid)]).size, 3);
    const before = await counted(gateway, 'weir_requests_total');
    const metrics = await (await fetch(`${gateway.url}/metrics`)).text();
    const [, begun = ''] = /^process_start_time_seconds (\d+)$/m.exec(metrics) ?? [];
    const ageS = Date.now() / 1000 - Number(begun);
    assert.ok(ageS > 0 && ageS < 300, `the oldest process started ${ageS} s ago`);
    for (let i = 0; i < 10; i++)
      assert.equal((await chat(gateway.url, { key: ownerKey, ...mock })).status, 200);
    await eventually(async () =>
      (await counted(gateway, 'weir_requests_total')) === before + 10 ? true : undefined,
    );
    assert.equal(
      ((await (await fetch(`${gateway.url}/readyz`)).json()) as { status: string }).status,
      'ready',
    );
  });

  test('a check of a balancer over HTTP/1.0, which names no host, is answered', async (t) => {
    for (const page of ['readyz', 'healthz']) {
      const client = await connect(t, Number(new URL(gateway.url).port));
      client.write(`GET /${page} HTTP/1.0\r\n\r\n`);
      assert.match(await client.ended(), /^HTTP\/1\.1 200 OK\r\n/, page);
    }
  });

  test('a new key works on both as soon as it is made, and a revoked one nowhere', async () => {
    const { key, keyId } = await makePremises(gateway.url, 'At once');
    const used = await Promise.all(Array.from({ length: 8 }, () => chat(gateway.url, { key, ...mock })));
    assert.deepEqual(
      used.map(({ status }) => status),
      Array(8).fill(200),
    );
    await operate(gateway.url, { method: 'DELETE', path: `/api-keys/${keyId}` });
    const refused = await Promise.all(Array.from({ length: 8 }, () => chat(gateway.url, { key, ...mock })));
    assert.deepEqual(
      refused.map(({ status }) => status),
      Array(8).fill(401),
    );
  });

  test('rate limits and budgets are exact over both', async () => {
    const limited = async (name: string, limits: object): Promise<string> => {
      const { workspace } = await makePremises(gateway.url, name);
      const body = {
        name: `${name} limited`,
        workspace_id: workspace,
        scopes: ['completions.write'],
        ...limits,
      };
      return (await operate(gateway.url, { path: '/api-keys/workspace/service', body })).key;
    };
    const rate = await limited('Rate', { rate_limits: [{ type: 'requests', unit: 'rph', value: 30 }] });
    const budget = await limited('Budget', { usage_limits: { type: 'requests', credit_limit: 20 } });
    for (const [key, bound, code] of [
      [rate, 30, 429],
      [budget, 20, 412],
    ] as const) {
      const statuses: number[] = [];
      for (let round = 0; round < 5; round++)
        statuses.push(
          ...(await Promise.all(Array.from({ length: 10 }, () => chat(gateway.url, { key, ...mock })))).map(
            ({ status }) => status,
          ),
        );
      assert.equal(statuses.filter((status) => status === 200).length, bound);
      assert.ok(statuses.includes(code), String(statuses));
    }
  });

  test('many requests on both at once use a limit up exactly, and most of them are decided without the parent', async () => {
    const { workspace } = await makePremises(gateway.url, 'Busy');
    const body = {
      name: 'Busy',
      workspace_id: workspace,
      scopes: ['completions.write'],
      rate_limits: [{ type: 'requests', unit: 'rph', value: 600 }],
      usage_limits: { type: 'requests', credit_limit: 10_000 },
    };
    const { key } = await operate(gateway.url, { path: '/api-keys/workspace/service', body });
    const before = await counted(gateway, 'weir_limit_decisions_total', 'by="parent"');
    const statuses: number[] = [];
    const caller = async (): Promise<void> => {
      for (let i = 0; i < 35; i++) statuses.push((await chat(gateway.url, { key, ...mock })).status);
    };
    await Promise.all(Array.from({ length: 20 }, caller));
    assert.equal(statuses.filter((status) => status === 200).length, 600);
    assert.equal(statuses.filter((status) => status === 429).length, 100);
    // A refusal is the parent's decision.
    const asked = (await counted(gateway, 'weir_limit_decisions_total', 'by="parent"')) - before - 100;
    assert.ok(asked < 400, `${asked} of 600 were decided by the parent`);
  });

  test('an answer cached by one is a hit on the other', async () => {
    const headers = { 'x-service-config': JSON.stringify({ provider: 'mock', cache: { mode: 'simple' } }) };
    const body = { model: 'mock-gpt', messages: [{ role: 'user', content: `cached ${Date.now()}` }] };
    const ask = () => call(gateway.url, { path: '/chat/completions', headers, body });
    assert.equal((await ask()).headers['x-service-cache-status'], 'MISS');
    for (let i = 0; i < 6; i++) assert.equal((await ask()).headers['x-service-cache-status'], 'HIT');
  });

  test('rows of both are in the logs, each once', async () => {
    const { key, workspace } = await makePremises(gateway.url, 'Logged');
    const asked = await Promise.all(Array.from({ length: 12 }, () => chat(gateway.url, { key, ...mock })));
    for (const answer of asked) {
      const id = String(answer.headers['x-service-request-id']);
      const row = await operate(gateway.url, { path: `/logs/${id}` });
      assert.equal(row.data?.workspace_id ?? row.workspace_id, workspace);
    }
  });

  test('a changed configuration is in force on both, an invalid one on none', async () => {
    await home.write('gateway.config.yaml', configuration('one'));
    const said = async (): Promise<readonly string[]> =>
      Promise.all(Array.from({ length: 6 }, async () => (await gateway.ask()).text)).then((texts) =>
        texts.map((text) => /You said: \\"(\w+): Hello/.exec(text)?.[1] ?? text),
      );
    await eventually(async () => ((await said()).every((one) => one === 'one') ? true : undefined));
    await home.write('gateway.config.yaml', configuration('two').replace('policies', 'polices'));
    await eventually(async () => ((await gateway.status())['config_error'] !== null ? true : undefined));
    assert.deepEqual([...new Set(await said())], ['one']);
    const generations = (await workersOf(gateway)).map(({ generation }) => generation);
    assert.deepEqual([...new Set(generations)], [(await gateway.status())['generation']]);
  });

  test('a worker that is killed is replaced, with the configuration that serves; the other fails no request', async () => {
    // The file on the disk is invalid at this moment.
    const [victim] = await workersOf(gateway);
    const before = await counted(gateway, 'weir_requests_total');
    process.kill(victim?.pid ?? 0, 'SIGKILL');
    await eventually(async () => {
      // A connection to the victim ends with it.
      const now = await workersOf(gateway).catch(() => []);
      return now.length === 2 && now.every(({ pid }) => pid !== victim?.pid) ? true : undefined;
    });
    assert.equal(await counted(gateway, 'weir_requests_total'), before, 'what it had counted stays');
    for (let i = 0; i < 6; i++) assert.match((await gateway.ask()).text, /one: Hello/);
  });

  test('a configuration that changes while a worker starts is in force on it, too', async () => {
    const workers = await workersOf(gateway);
    const claims = async (): Promise<readonly string[]> => {
      // A worker has another folder than its own while somebody still holds that one.
      const found = await readdir(path.join(home.data, 'workers'), { recursive: true });
      return found.filter((name) => name.endsWith('.claim'));
    };
    const before = new Set(await claims());
    process.kill(workers[0]?.pid ?? 0, 'SIGKILL');
    // Its successor has its configuration by now, and does not serve yet.
    await eventually(async () => ((await claims()).some((name) => !before.has(name)) ? true : undefined));
    await home.write('gateway.config.yaml', configuration('meanwhile'));
    await eventually(async () => {
      const now = await workersOf(gateway).catch(() => []);
      return now.length === 2 && now.every(({ pid }) => pid !== workers[0]?.pid) ? true : undefined;
    });
    await eventually(async () => {
      const { generation, config_error: error } = await gateway.status();
      const all = await workersOf(gateway);
      return error === null && all.every((one) => one.generation === generation) ? true : undefined;
    });
    for (let i = 0; i < 6; i++) assert.match((await gateway.ask()).text, /meanwhile: Hello/);
  });

  test('load over reloads fails no request, and a stream outlives the end of the gateway', async () => {
    await home.write('gateway.config.yaml', configuration('three'));
    const load = new SteadyLoad(gateway, { perSecond: 40, streams: 4 });
    for (const prefix of ['four', 'five', 'six']) {
      await pause(700);
      await home.write('gateway.config.yaml', configuration(prefix));
    }
    await pause(700);
    await load.stop();
    assert.deepEqual(load.failures, []);
    const stream = await gateway.open({ stream: true, headers: { 'x-mock-chunk-delay-ms': '50' } });
    const ended = gateway.stop();
    assert.match(saidBy(await stream.text()), /Hello/);
    assert.equal(await ended, 0);
  });

  test('rows of a worker that was killed are stored after the next start', async () => {
    gateway = await startGateway(home);
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => chat(gateway.url, { key: ownerKey, ...mock })),
    );
    await pause(300);
    await gateway.kill();
    gateway = await startGateway(home);
    for (const { headers } of answers)
      await eventually(async () => {
        const { status } = await call(gateway.url, {
          path: `/logs/${String(headers['x-service-request-id'])}`,
        });
        return status === 200 ? true : undefined;
      });
  });
});

const careless = `import { definePlugin } from 'weir-gateway/plugin';
export default definePlugin({
  name: 'careless',
  capabilities: { reads: ['request.text'] },
  create: () => ({
    request({ conversation }) {
      if (conversation.texts.some(({ text }) => text === 'loop')) for (;;);
    },
  }),
});
`;

describe('two workers with Redis', { skip: onNode || redisMissing, timeout: 120_000 }, () => {
  let redis: RedisServer;
  let home: Home;
  let gateway: GatewayProcess;

  before(async () => {
    redis = await startRedis();
    home = await makeHome(`version: 1
server: { port: 8787, workers: 2, watchdog_ms: 2000 }
storage: { analytics: { url: "none:" }, resources: { url: "none:" }, counters: { url: "${redis.url}" } }
pipelines:
  - name: limited
    match: { path: /embeddings }
    plugins: [auth, { rate-limit: { requests_per_hour: 40 } }, provider]
  - name: gateway
    match: { path: /** }
    plugins: [auth, ./careless.ts, provider, logger]
`);
    await home.write('careless.ts', careless);
    gateway = await startGateway(home);
  });
  after(async () => {
    await stopEverything();
    await home.remove();
    await redis.stop();
  });

  test('a limit is exact over both', async () => {
    const body = { model: 'mock-embedding', input: 'Hello' };
    const headers = { 'x-service-provider': 'mock' };
    const answers = await Promise.all(
      Array.from({ length: 60 }, () => call(gateway.url, { path: '/embeddings', headers, body })),
    );
    assert.equal(answers.filter(({ status }) => status === 200).length, 40);
    assert.equal(answers.filter(({ status }) => status === 429).length, 20);
  });

  test('weir journal shows what each of them has written', async () => {
    for (let i = 0; i < 6; i++)
      assert.equal((await chat(gateway.url, { key: ownerKey, ...mock })).status, 200);
    const shown = async () => {
      const { stdout } = await runWeir(['journal', 'status', '--json', '--data', home.data]);
      const { workers } = JSON.parse(stdout) as {
        readonly workers: readonly {
          readonly gateway_pid: number;
          readonly tables: { readonly requests: { readonly rows: number } };
        }[];
      };
      return workers;
    };
    const written = async (): Promise<number> =>
      (await shown()).reduce((sum, { tables }) => sum + tables.requests.rows, 0);
    await eventually(async () => ((await written()) >= 6 ? true : undefined));
    const pids = (await workersOf(gateway)).map(({ pid }) => pid);
    assert.deepEqual((await shown()).map(({ gateway_pid: pid }) => pid).sort(), pids.sort());
    const verified = await runWeir(['journal', 'verify', '--data', home.data]);
    assert.equal(verified.stdout.match(/ 0 faults/g)?.length, 3, verified.stdout);
  });

  test('one whose plugin loops is replaced, and the other serves all the while', async () => {
    const before = await workersOf(gateway);
    const looping = gateway.ask({ content: 'loop' }).catch(() => undefined);
    // A worker that loops takes no connection.
    const during = await Promise.all(
      Array.from({ length: 20 }, async (_, index) => {
        await pause(300 + 40 * index);
        return (await call(gateway.url, { path: '/models' })).status;
      }),
    );
    assert.deepEqual([...new Set(during)], [200]);
    await eventually(async () => {
      const now = await workersOf(gateway).catch(() => []);
      const isNew = now.some(({ pid }) => before.every((one) => one.pid !== pid));
      return now.length === 2 && isNew ? true : undefined;
    });
    await looping;
    assert.match(gateway.stderr, /plugin "careless" holds the event loop/);
    assert.match(gateway.stderr, /A worker has ended and is replaced.*ended_with=70/);
  });
});

describe('a start with workers', { skip: onNode, timeout: 120_000 }, () => {
  after(stopEverything);

  test('says that the port is in use, and ends', async () => {
    const yaml =
      'version: 1\nserver: { workers: 2 }\nstorage: { analytics: { url: "none:" } }\npipelines: [{ name: all, match: { path: /** }, plugins: [provider] }]\n';
    const first = await startWeir({ yaml });
    const ended = await startWeir({ yaml, port: first.port }).then(
      () => 'it started',
      (error: unknown) => String(error),
    );
    assert.match(ended, /the port is in use\. Choose another one with --port or server\.port/);
  });

  test('refuses a number of workers that is none', async () => {
    const home = await makeHome(
      'version: 1\nserver: { workers: 0 }\npipelines: [{ name: all, match: { path: /** }, plugins: [provider] }]\n',
    );
    const { code, stdout, stderr } = await runWeir(['check', home.configFile]);
    await home.remove();
    assert.equal(code, 1);
    assert.match(stdout + stderr, /"workers": expected a whole number from 1 to 256, found 0/);
  });
});
