// The analytics store killed, hung, full and slow in turn, under load: every row arrives once, and no request notices.
import assert from 'node:assert/strict';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { createClient } from '@clickhouse/client';
import { chdbMissing, startTestChdb } from '../../storage/embedded/chdb-fixture.ts';
import type { EmbeddedChdb } from '../../storage/embedded/start-chdb.ts';
import { makeHome, startGateway, type GatewayProcess, type Home } from '../kit/gateway-process.ts';
import { eventually, stopEverything } from '../kit/process-kit.ts';
import { SteadyLoad } from '../kit/steady-load.ts';

type Trouble = 'none' | 'full' | 'slow' | 'lost-answer';

/** Stands before the engine as a server that is in trouble. */
class TroubledStore {
  trouble: Trouble = 'none';
  /** Inserts that met a trouble. */
  met: Trouble[] = [];
  private readonly engine: URL;
  private readonly server = http.createServer((request, response) => this.take(request, response));

  constructor(engine: string) {
    this.engine = new URL(engine);
  }

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private take(request: http.IncomingMessage, response: http.ServerResponse): void {
    const isInsert = request.url?.includes('INSERT') === true;
    const { trouble } = this;
    if (isInsert && trouble !== 'none') this.met.push(trouble);
    if (isInsert && trouble === 'full') {
      request.resume();
      response.writeHead(500, { 'x-clickhouse-exception-code': '243' });
      response.end('Code: 243. DB::Exception: Cannot reserve 1.00 MiB, not enough space. (NOT_ENOUGH_SPACE)');
      return;
    }
    const isSlow = isInsert && trouble === 'slow';
    setTimeout(() => this.pass(request, response, isInsert && trouble === 'lost-answer'), isSlow ? 700 : 0);
  }

  private pass(request: http.IncomingMessage, response: http.ServerResponse, losesAnswer: boolean): void {
    const { hostname, port } = this.engine;
    const { url = '/', method = 'GET', headers } = request;
    const passed = http.request({ hostname, port, path: url, method, headers }, (answer) => {
      if (losesAnswer) {
        answer.resume();
        response.destroy();
        return;
      }
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    passed.on('error', () => response.destroy());
    response.on('close', () => passed.destroy());
    request.pipe(passed);
  }
}

const configuration = (url: string, { username, password }: EmbeddedChdb): string => `version: 1
storage:
  analytics: { url: "${url}/troubled", username: "${username}", password: "${password}" }
  journal: { ship_ms: 100 }
pipelines:
  - name: gateway
    match: { path: /** }
    plugins: [auth, provider, logger]
`;

/** A number of the page /metrics. */
async function metric(gateway: GatewayProcess, series: string): Promise<number> {
  const text = await fetch(`${gateway.url}/metrics`)
    .then((answer) => answer.text())
    .catch((error: unknown) => {
      throw new Error(`The gateway does not answer; it wrote:\n${gateway.stderr}`, { cause: error });
    });
  const line = text.split('\n').find((one) => one.startsWith(`${series} `));
  return Number(line?.split(' ').at(-1) ?? 0);
}

/** Deno does not tell of a connection that ends without an answer: there the insert's own time, a minute, has to pass. */
const longestMs = 150_000;

describe('a store in trouble', { skip: chdbMissing, timeout: 3 * longestMs }, () => {
  let engine: EmbeddedChdb;
  let closeEngine: () => Promise<void>;
  let store: TroubledStore;
  let home: Home;
  let gateway: GatewayProcess;
  let load: SteadyLoad;

  before(async () => {
    ({ engine, close: closeEngine } = await startTestChdb());
    store = new TroubledStore(engine.url);
    home = await makeHome(configuration(await store.listen(), engine));
    gateway = await startGateway(home);
    load = new SteadyLoad(gateway, { perSecond: 25, streams: 2 });
  });
  after(async () => {
    await stopEverything();
    await store.close();
    await closeEngine();
    await home.remove();
  });

  const pending = (): Promise<number> => metric(gateway, 'weir_rows_pending{table="requests"}');
  /** Rows pile up: the trouble has been noticed, and rows wait for its end. */
  const piledUp = () =>
    eventually(
      async () => ((await pending()) > 20 ? true : undefined),
      () => gateway.stderr,
      longestMs,
    );
  /** Rows that were accepted before now have been stored, of each table: they are shipped apart. */
  const caughtUp = async (): Promise<void> => {
    for (const table of ['requests', 'bodies']) {
      const accepted = await metric(gateway, `weir_rows_accepted_total{table="${table}"}`);
      await eventually(
        async () =>
          (await metric(gateway, `weir_rows_stored_total{table="${table}"}`)) >= accepted ? true : undefined,
        () => gateway.stderr,
        longestMs,
      );
    }
  };

  test('killed', async () => {
    await caughtUp();
    const { pid, restarts } = engine;
    assert.ok(pid !== undefined);
    process.kill(pid, 'SIGKILL');
    await eventually(() => engine.restarts > restarts || undefined, undefined, 30_000);
    await caughtUp();
  });

  test('hung', async () => {
    const { pid } = engine;
    assert.ok(pid !== undefined);
    process.kill(pid, 'SIGSTOP');
    try {
      await piledUp();
    } finally {
      process.kill(pid, 'SIGCONT');
    }
    await caughtUp();
  });

  for (const trouble of ['full', 'slow', 'lost-answer'] as const) {
    test(trouble, async () => {
      store.trouble = trouble;
      const wanted = trouble === 'slow' ? 8 : 2;
      const met = (): number => store.met.filter((one) => one === trouble).length;
      await eventually(
        () => met() >= wanted || undefined,
        () => gateway.stderr,
        longestMs,
      );
      if (trouble !== 'slow') await piledUp();
      store.trouble = 'none';
      await caughtUp();
    });
  }

  test('every row that was accepted is stored once, and no request noticed', async () => {
    await load.stop();
    assert.deepEqual(load.failures.slice(0, 5), []);
    const asked = load.answered + load.streamed;
    assert.ok(load.answered > 50 && load.streamed > 2);
    assert.equal(await metric(gateway, 'weir_rows_shed_total{table="requests"}'), 0);
    assert.equal(await gateway.stop(), 0, gateway.stderr);
    const { url, username, password } = engine;
    const client = createClient({ url, username, password, database: 'troubled' });
    try {
      for (const table of ['requests', 'bodies']) {
        const query = `SELECT toUInt32(count()) AS rows, toUInt32(uniqExact(id)) AS ids FROM ${table}`;
        const [found] = await (await client.query({ query, format: 'JSONEachRow' })).json<object>();
        assert.deepEqual(found, { rows: asked, ids: asked }, table);
      }
    } finally {
      await client.close();
    }
  });
});
