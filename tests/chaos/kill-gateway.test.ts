import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { chdbMissing } from '../../storage/embedded/chdb-fixture.ts';
import { makeHome, startGateway, type GatewayProcess } from '../kit/gateway-process.ts';
import { eventually, ownerKey, stopEverything } from '../kit/process-kit.ts';
import { journalIds, storedCopies, tables, withStore } from '../kit/stored-copies.ts';

// Each round is killed at another time, so that it hits rows that are only on disk, on their way, or just stored.
const killedAfterMs = [900, 1450];
const clients = 8;
const requestsPerClient = 1000;

const configuration = `version: 1
storage: { journal: { ship_ms: 400 } }
prices: { models: [{ provider: mock, model: '*', input: 3.100007, output: 12.500003 }] }
pipelines:
  - { name: admin, match: { routes: contributed }, plugins: [auth, management] }
  - name: gateway
    match: { path: /** }
    plugins: [auth, provider, logger: { bodies: true }]
`;

/** The prices above, in 10⁻¹² dollars for a token. */
const priceOf = (prompt: number, completion: number): bigint =>
  BigInt(prompt) * 3_100_007n + BigInt(completion) * 12_500_003n;

after(stopEverything);

/** Asks from several clients at once and kills the gateway when it is `ready`; resolves when all clients have noticed. */
async function requestsUntilKilled(gateway: GatewayProcess, ready: () => Promise<void>): Promise<void> {
  let killed = false;
  const client = async (): Promise<void> => {
    for (let request = 0; request < requestsPerClient && !killed; request += 1) {
      const answer = await gateway.ask().catch(() => undefined);
      if (answer?.status !== 200 && !killed) throw new Error(`it failed before the kill: ${gateway.stderr}`);
    }
  };
  const asking = Promise.all(Array.from({ length: clients }, client));
  await Promise.race([ready(), asking]);
  killed = true;
  await gateway.kill();
  await asking;
}

/** What an administrator reads. */
async function read(gateway: GatewayProcess, address: string) {
  const headers = { 'x-service-api-key': ownerKey };
  const response = await fetch(`${gateway.url}/v1${address}`, { headers });
  const text = await response.text();
  assert.equal(response.status, 200, `${address}: ${text}`);
  return JSON.parse(text);
}

/** Some of them, from the first to the last. */
function everySo(ids: ReadonlySet<string>, wanted = 8): string[] {
  const step = Math.ceil(ids.size / wanted);
  return [...ids].filter((_, index) => index % step === 0);
}

test(
  'whatever was on disk when the gateway was killed is in the store exactly once',
  { skip: chdbMissing, timeout: 90_000 },
  async (t) => {
    const home = await makeHome(configuration);
    t.after(async () => {
      await stopEverything();
      await home.remove();
    });
    const flushed = { requests: new Set<string>(), bodies: new Set<string>() };
    let gateway = await startGateway(home);
    for (const [round, killAfterMs] of killedAfterMs.entries()) {
      await requestsUntilKilled(gateway, async () => {
        await pause(killAfterMs);
        await eventually(async () => (await journalIds(home, 'bodies')).length > 0 || undefined);
      });
      for (const table of tables) {
        const ids = await journalIds(home, table);
        for (const id of ids) flushed[table].add(id);
      }
      gateway = await startGateway(home);
      await eventually(
        async () =>
          (await Promise.all(tables.map((table) => journalIds(home, table)))).flat().length === 0 ||
          undefined,
        () => `an empty journal in round ${round}; standard error: ${gateway.stderr}`,
        20_000,
      );
    }
    const counted = await read(gateway, '/analytics/groups/status_code');
    for (const id of everySo(flushed.bodies)) {
      const { id: found, request, metrics } = await read(gateway, `/logs/${id}`);
      assert.deepEqual([found, request.body.model, metrics.status], [id, 'mock-gpt', 200]);
    }
    assert.equal(await gateway.stop(), 0, gateway.stderr);

    const stored = await storedCopies(home);
    assert.deepEqual(counted.data, [{ status_code: 200, requests: stored.requests.size }]);
    for (const table of tables) {
      assert.ok(flushed[table].size > 0, `no ${table} were in the journal at a kill, which proves nothing`);
      const missing = [...flushed[table]].filter((id) => !stored[table].has(id));
      const doubled = [...stored[table]].filter(([, count]) => count > 1);
      assert.deepEqual(missing, [], `${missing.length} of ${flushed[table].size} ${table} are lost`);
      assert.deepEqual(doubled, [], `${doubled.length} of ${stored[table].size} ${table} are stored twice`);
    }
    // Of rows that were stored before a kill, after it and from the journal: the sum is that of the usage, to the last digit.
    const [sums] = await withStore(home.data, (rowsOf) =>
      rowsOf<Record<'prompt' | 'completion' | 'total' | 'rolled', string>>(`
        SELECT toString(sum(prompt_tokens)) AS prompt, toString(sum(completion_tokens)) AS completion,
          toString(sum(cost)) AS total, (SELECT toString(sum(cost_sum)) FROM usage_days WHERE dimension = '*') AS rolled
        FROM requests`),
    );
    const expected = priceOf(Number(sums?.prompt), Number(sums?.completion));
    const picos = (cost = '0'): bigint => {
      const [whole = '', fraction = ''] = cost.split('.');
      return BigInt(whole + fraction.padEnd(12, '0'));
    };
    assert.ok(expected > 0n);
    assert.deepEqual([picos(sums?.total), picos(sums?.rolled)], [expected, expected]);
  },
);
