import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { makePremises, operate } from '../kit/operator.ts';
import { postgresMissing, startPostgres, type PostgresServer } from '../kit/postgres-server.ts';
import { restartExitCode } from '../../core/lifecycle/process-guards.ts';
import {
  eventually,
  startWeir,
  stopEverything,
  temporaryFolder,
  type WeirProcess,
} from '../kit/process-kit.ts';

// Gateways with empty data folders of their own, as replicas in containers have them.
describe('gateways that start on one server', { skip: postgresMissing }, () => {
  let server: PostgresServer;
  const secret = { WEIR_SECRET_KEY: randomBytes(32).toString('base64') };
  const start = async (data?: string): Promise<WeirProcess> =>
    startWeir({
      yaml: {
        version: 1,
        storage: { resources: { url: server.url }, analytics: { url: 'none:' } },
        pipelines: [{ name: 'admin', match: { routes: 'contributed' }, plugins: ['auth', 'management'] }],
      },
      data: data ?? path.join(await temporaryFolder(), 'data'),
      env: secret,
    });
  const organisation = async ({ url }: WeirProcess): Promise<string> => {
    const { keyId } = await makePremises(url, randomUUID());
    return (await operate(url, { path: `/api-keys/${keyId}` })).organisation_id;
  };

  before(async () => {
    server = await startPostgres();
  });
  after(async () => {
    await stopEverything();
    await server.stop();
  });

  test('at the same moment serve one organisation, and so does one that comes later or comes back', async () => {
    const first = await Promise.all([start(), start(), start()]);
    const seen = new Set(await Promise.all(first.map(organisation)));
    assert.match([...seen].join(), /^[0-9a-f-]{36}$/, 'one organisation');
    const data = path.join(await temporaryFolder(), 'data');
    const late = await start(data);
    assert.match(late.stderr(), /joins the organisation of its store/);
    const { total } = await operate(late.url, { path: '/admin/workspaces' });
    assert.equal(total, 1 + first.length, 'the default workspace and those of the others');
    assert.equal((await operate(late.url, { path: '/admin/users' })).total, 1, 'one owner');
    await late.stop();
    const again = await start(data);
    assert.ok(seen.has(await organisation(again)));
    assert.doesNotMatch(again.stderr(), /joins|another one/);
  });

  test('whose server is away at their first start join its organisation when it comes', async () => {
    const later = await startPostgres();
    await later.kill();
    const started = async (data: string): Promise<WeirProcess> =>
      startWeir({
        // So long that the directory asks several times before the end.
        data,
        env: { ...secret, WEIR_DRAIN_DELAY_MS: '3000' },
        yaml: {
          version: 1,
          storage: { resources: { url: later.url }, analytics: { url: 'none:' } },
          pipelines: [{ name: 'admin', match: { routes: 'contributed' }, plugins: ['auth', 'management'] }],
        },
      });
    try {
      const folders = [await temporaryFolder(), await temporaryFolder()].map((one) => path.join(one, 'data'));
      const gateways = await Promise.all(folders.map(started));
      await later.start();
      const codes = new Map<number, number | null>();
      gateways.forEach((one, index) => void one.child.once('exit', (code) => codes.set(index, code)));
      const [index, code] = await eventually(
        () => [...codes][0],
        () => 'one of them to end',
        30_000,
      );
      assert.equal(code, restartExitCode, gateways[index]?.stderr());
      assert.doesNotMatch(gateways[index]?.stderr() ?? '', /second signal/, 'it ends in order');
      const again = await started(folders[index] ?? '');
      const other = gateways[1 - index] as WeirProcess;
      assert.equal(await organisation(again), await organisation(other));
      const { data } = await operate(other.url, { path: '/admin/users' });
      assert.equal(data.length, 1, 'one owner');
      assert.equal(codes.size, 1, 'the one that came first made the organisation and serves on');
    } finally {
      await later.stop();
    }
  });

  test('beside several organisations one makes its own, and says so', async () => {
    const data = path.join(await temporaryFolder(), 'data');
    await mkdir(data, { recursive: true });
    const ids = { organisation_id: randomUUID(), workspace_id: randomUUID(), owner_key_id: randomUUID() };
    const identity = { ...ids, owner_key_sha256: 'A'.repeat(44) };
    await writeFile(path.join(data, 'identity.json'), JSON.stringify(identity));
    assert.equal(await organisation(await start(data)), ids.organisation_id);
    const third = await start();
    assert.match(third.stderr(), /has organisations already, and this gateway has made another one/);
    assert.notEqual(await organisation(third), ids.organisation_id);
  });
});
