import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { chdbMissing } from '../../storage/embedded/chdb-fixture.ts';
import { engineOfProcess } from '../kit/processes.ts';
import { makeHome, startGateway, type GatewayProcess } from '../kit/gateway-process.ts';
import { eventually, stopEverything } from '../kit/process-kit.ts';
import { journalIds, storedCopies, tables } from '../kit/stored-copies.ts';

const configuration = `version: 1
storage: { journal: { ship_ms: 200 } }
pipelines:
  - { name: admin, match: { routes: contributed }, plugins: [auth, management] }
  - name: gateway
    match: { path: /** }
    plugins: [auth, provider, logger: { bodies: true }]
`;
const clients = 4;
const skip =
  chdbMissing !== false ? chdbMissing : process.platform === 'linux' ? false : 'processes are found in /proc';

after(stopEverything);

/** The signal or fault that the engine's process gets. */
const harms: Readonly<Record<string, (pid: number) => Promise<void>>> = {
  async killed(pid) {
    process.kill(pid, 'SIGKILL');
    await pause(1500);
  },
  async hung(pid) {
    process.kill(pid, 'SIGSTOP');
    await pause(2500);
    process.kill(pid, 'SIGCONT');
    await pause(200);
  },
  async slow(pid) {
    for (let round = 0; round < 15; round += 1) {
      process.kill(pid, 'SIGSTOP');
      await pause(180);
      process.kill(pid, 'SIGCONT');
      await pause(20);
    }
  },
};

/** Requests from several clients until `stop`; the ids of those that were answered, and what went wrong. */
async function askUntil(gateway: GatewayProcess, stop: AbortSignal) {
  const ids: string[] = [];
  const failures: string[] = [];
  const client = async (): Promise<void> => {
    while (!stop.aborted) {
      const answer = await gateway.ask();
      if (answer.status !== 200) failures.push(answer.text);
      ids.push(answer.headers.get('x-service-request-id') ?? '');
      await pause(10);
    }
  };
  await Promise.all(Array.from({ length: clients }, client));
  return { ids, failures };
}

describe('an analytics engine that fails under load', { skip }, () => {
  test(
    'killed, hung and slow in turn: requests go on, and every row is stored once',
    { timeout: 150_000 },
    async (t) => {
      const home = await makeHome(configuration);
      t.after(async () => {
        await stopEverything();
        await home.remove();
      });
      const gateway = await startGateway(home);
      const stop = new AbortController();
      const asking = askUntil(gateway, stop.signal);
      for (const [harm, harmed] of Object.entries(harms)) {
        await pause(500);
        const pid = await eventually(
          () => engineOfProcess(gateway.pid, 'chdb-child'),
          () => `an engine to be ${harm}`,
        );
        await harmed(pid);
      }
      stop.abort();
      const { ids, failures } = await asking;
      assert.deepEqual(failures, []);
      await eventually(
        async () =>
          (await Promise.all(tables.map((table) => journalIds(home, table)))).flat().length === 0 ||
          undefined,
        () => `an empty journal; standard error: ${gateway.stderr}`,
        60_000,
      );
      assert.equal(await gateway.stop(), 0, gateway.stderr);
      const stored = await storedCopies(home);
      for (const table of tables) {
        assert.deepEqual([...stored[table].keys()].sort(), [...ids].sort(), table);
        assert.deepEqual(
          [...stored[table]].filter(([, copies]) => copies !== 1),
          [],
          table,
        );
      }
    },
  );
});
