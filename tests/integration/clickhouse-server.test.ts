// The gateway with a ClickHouse server that is away when it starts, comes, and goes again.
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { chdbMissing, startTestChdb } from '../../storage/embedded/chdb-fixture.ts';
import type { EmbeddedChdb } from '../../storage/embedded/start-chdb.ts';
import { startFront, type Front } from '../kit/front.ts';
import { send } from '../kit/http-kit.ts';
import {
  eventually,
  ownerKey,
  runWeir,
  startWeir,
  stopEverything,
  temporaryFolder,
} from '../kit/process-kit.ts';

const pipelines = [
  { name: 'admin', match: { routes: 'contributed' }, plugins: ['auth', 'management'] },
  { name: 'gateway', match: { path: '/**' }, plugins: ['auth', 'provider', 'logger'] },
];
const authorization = `Bearer ${ownerKey}`;

describe('a gateway with a ClickHouse server', { skip: chdbMissing }, () => {
  let engine: EmbeddedChdb;
  let closeEngine: () => Promise<void>;
  let front: Front;
  before(async () => {
    ({ engine, close: closeEngine } = await startTestChdb());
    front = await startFront(Number(new URL(engine.url).port), { away: true });
  });
  after(async () => {
    await stopEverything();
    await front.close();
    await closeEngine();
  });

  const configuration = (url: string) => ({
    version: 1,
    storage: {
      analytics: { url, username: engine.username, password: '${CLICKHOUSE_PASSWORD}' },
      journal: { ship_ms: 50 },
    },
    pipelines,
  });

  test('serves while the server is away, and stores every row when it is back', async () => {
    const weir = await startWeir({
      yaml: configuration(`${front.url}/of_gateway`),
      env: { CLICKHOUSE_PASSWORD: engine.password },
    });
    const ready = () => send(weir.url, { path: '/readyz' });
    const ask = async (): Promise<string> => {
      const answer = await send(weir.url, {
        path: '/v1/chat/completions',
        method: 'POST',
        headers: { authorization, 'x-service-provider': 'mock', 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'mock-gpt', messages: [{ role: 'user', content: 'Hello' }] }),
      });
      assert.equal(answer.status, 200);
      return String(answer.headers['x-service-request-id']);
    };
    const stored = async (id: string): Promise<true | undefined> => {
      const answer = await send(weir.url, { path: `/v1/logs/${id}`, headers: { authorization } });
      return answer.status === 200 ? true : undefined;
    };
    const isReady = async (): Promise<true | undefined> =>
      (await ready()).json().degraded.length === 0 ? true : undefined;

    const before = await ask();
    const refused = await ready();
    assert.equal(refused.status, 200, 'every request can be served');
    assert.ok(refused.json().degraded.includes('analytics'), refused.text);
    assert.match(refused.json().dependencies.analytics, /not available: the connection failed/);
    front.away(false);
    // The schema is brought up to date behind a pause of the store, which grows while the server is away.
    await eventually(
      () => stored(before),
      () => `the first row; it says:\n${weir.stderr().slice(-3000)}`,
      60_000,
    );
    await eventually(isReady);
    front.away(true);
    const during = await ask();
    const without = await ready();
    assert.equal(without.status, 200, 'every request can be served');
    await eventually(async () => (await ready()).json().degraded.includes('analytics') || undefined);
    front.away(false);
    await eventually(() => stored(during));
    await eventually(isReady);

    const status = await send(weir.url, { path: '/status' });
    for (const text of [weir.stdout(), weir.stderr(), refused.text, status.text]) {
      assert.ok(!text.includes(engine.password), 'the password is nowhere to be read');
    }
    assert.match(weir.stderr(), /The analytics store at http.* cannot be used: the connection failed/);
    assert.match(weir.stderr(), /The analytics store answers now/);
    await weir.stop();
  });

  test('does not start with a wrong password, and says what to check', async () => {
    const folder = await temporaryFolder();
    const config = path.join(folder, 'gateway.config.yaml');
    await writeFile(config, JSON.stringify(configuration(engine.url)));
    const args = ['start', '--config', config, '--data', path.join(folder, 'data'), '--port', '0'];
    const ended = await runWeir(args, {
      env: { CLICKHOUSE_PASSWORD: 'guessed-word', WEIR_ADMIN_KEY: ownerKey },
    });
    assert.equal(ended.code, 1);
    assert.match(ended.stderr, /refuses the user or the password .*storage\.analytics\.password/);
    assert.doesNotMatch(ended.stdout + ended.stderr, /guessed-word/);
  });

  test('refuses credentials in the address without repeating them', async () => {
    const folder = await temporaryFolder();
    const config = path.join(folder, 'gateway.config.yaml');
    const file = configuration('http://me:guessed-word@host:8123/x/y');
    await writeFile(config, JSON.stringify(file));
    const ended = await runWeir(['check', config], { env: { CLICKHOUSE_PASSWORD: '' } });
    assert.equal(ended.code, 1);
    assert.match(ended.stderr, /without a user name and a password; put them into "username" and "password"/);
    assert.doesNotMatch(ended.stdout + ended.stderr, /guessed-word/);
  });
});
