import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { chdbMissing } from '../../storage/embedded/chdb-fixture.ts';
import { makeHome, startGateway } from '../kit/gateway-process.ts';
import { stopEverything } from '../kit/process-kit.ts';
import { journalIds, storedCopies, tables } from '../kit/stored-copies.ts';

const clients = 6;
const requestsPerClient = 25;
const openStreams = 3;

// Nothing is shipped by itself within this test: what is in the store was brought there by the shutdown.
const configuration = `version: 1
storage: { journal: { ship_ms: 60000 } }
pipelines:
  - name: gateway
    match: { path: /** }
    plugins: [auth, provider, logger: { bodies: true }]
`;

after(stopEverything);

test(
  'SIGTERM: every request that was answered is in the store exactly once, open streams too',
  { skip: chdbMissing, timeout: 60_000 },
  async (t) => {
    const home = await makeHome(configuration);
    t.after(async () => {
      await stopEverything();
      await home.remove();
    });
    const gateway = await startGateway(home);
    const answered: string[] = [];
    const note = ({ headers }: { headers: Headers }): void => {
      answered.push(headers.get('x-service-request-id') ?? 'an answer without an id');
    };
    const client = async (): Promise<void> => {
      for (let request = 0; request < requestsPerClient; request += 1) {
        // Every fifth is refused: what was not served is written down as well.
        note(await gateway.ask(request % 5 === 0 ? { body: { model: 'mock-gpt' } } : {}));
      }
    };
    await Promise.all(Array.from({ length: clients }, client));
    const streams = await Promise.all(
      Array.from({ length: openStreams }, () =>
        gateway.open({ model: 'mock:tokens=20,chunk_latency_ms=40', stream: true }),
      ),
    );
    streams.forEach(note);
    const texts = streams.map((stream) => stream.text());
    assert.equal(await gateway.stop(), 0, gateway.stderr);
    for (const text of await Promise.all(texts)) assert.match(text, /data: \[DONE\]\n\n$/);

    const stored = await storedCopies(home);
    const expected = new Map(answered.sort().map((id) => [id, 1]));
    assert.equal(expected.size, clients * requestsPerClient + openStreams);
    for (const table of tables) {
      assert.deepEqual(await journalIds(home, table), []);
      assert.deepEqual(new Map([...stored[table]].sort()), expected, table);
    }
  },
);
