import assert from 'node:assert/strict';
import { cp, readdir, rename, rm, stat, truncate, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import {
  eventually,
  ownerKey,
  startWeir,
  stopEverything,
  temporaryFolder,
  type WeirProcess,
} from '../kit/process-kit.ts';

const yaml = `version: 1
storage: { resources: { url: "pglite:" }, analytics: { url: "chdb:" } }
pipelines:
  - { name: admin, match: { routes: contributed }, plugins: [auth, management] }
  - { name: gateway, match: { path: /** }, plugins: [auth, provider: { default: mock }, logger] }
`;
const headers = { 'x-service-api-key': ownerKey, 'content-type': 'application/json' };

async function chat({ url }: WeirProcess): Promise<string> {
  const body = JSON.stringify({ model: 'mock-gpt', messages: [{ role: 'user', content: 'Hello' }] });
  const answer = await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body });
  assert.equal(answer.status, 200, await answer.text());
  return answer.headers.get('x-service-request-id') ?? '';
}

async function get({ url }: WeirProcess, target: string): Promise<{ status: number; text: string }> {
  const answer = await fetch(url + target, { headers });
  return { status: answer.status, text: await answer.text() };
}

/** Longer than the longest pause between two attempts to open the store (30 s) and a start of the engine behind it. */
const storedWithinMs = 90_000;

const isStored = (weir: WeirProcess, id: string): Promise<true | undefined> =>
  eventually(
    async () => (await get(weir, `/v1/logs/${id}`)).status === 200 || undefined,
    () => `the log entry ${id}; the gateway says:\n${weir.stderr().slice(-4000)}`,
    storedWithinMs,
  );

/** Files below a folder whose names match, absolute. */
async function filesOf(folder: string, wanted: RegExp): Promise<string[]> {
  const names = await readdir(folder, { recursive: true });
  return names.filter((name) => wanted.test(name)).map((name) => path.join(folder, name));
}

describe('a damaged analytics folder', () => {
  let whole: string;
  let workspace: string;
  let stored: string;
  before(async () => {
    whole = path.join(await temporaryFolder(), 'data');
    const weir = await startWeir({ yaml, data: whole });
    stored = await chat(weir);
    await isStored(weir, stored);
    const made = await fetch(`${weir.url}/v1/admin/workspaces`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ name: 'Kept' }),
    });
    workspace = ((await made.json()) as { id: string }).id;
    await weir.stop();
  });
  after(stopEverything);

  async function startDamaged(
    damage: (folder: string) => Promise<void>,
  ): Promise<{ weir: WeirProcess; folder: string }> {
    const data = path.join(await temporaryFolder(), 'data');
    await cp(whole, data, { recursive: true, verbatimSymlinks: true });
    const folder = path.join(data, 'analytics');
    await damage(folder);
    return { weir: await startWeir({ yaml, data }), folder };
  }

  const damages = {
    'the description of a table': async (folder: string) => {
      const files = await filesOf(folder, /^store\/.*\/requests\.sql$/);
      assert.equal(files.length, 1);
      for (const file of files) await writeFile(file, 'nonsense');
    },
    'the rows that say how far the schema has come': async (folder: string) => {
      for (const file of await filesOf(folder, /^store\/.*data\.bin$/))
        await writeFile(file, Buffer.alloc((await stat(file)).size, 0x5a));
    },
    'the folder that names the database': (folder: string) =>
      rm(path.join(folder, 'metadata'), { recursive: true }),
  };
  for (const [what, damage] of Object.entries(damages)) {
    test(`${what}: it serves, names the folder and the way back, which stores what waited`, async () => {
      const { weir, folder } = await startDamaged(damage);
      const waiting = await chat(weir);
      assert.equal((await get(weir, `/v1/admin/workspaces/${workspace}`)).status, 200);
      const ready = await get(weir, '/readyz');
      assert.equal(ready.status, 200);
      assert.match(ready.text, /"degraded":\["analytics".*its folder is damaged or cannot be read/);
      assert.equal((await get(weir, `/v1/logs/${waiting}`)).status, 503);
      const said = await weir.untilStderr('Move that folder away and nothing else');
      assert.ok(said.includes(`The analytics store at ${folder} cannot be used`), said);
      await rename(folder, `${folder}-damaged`);
      await isStored(weir, waiting);
      await eventually(
        async () => (await get(weir, '/readyz')).text.includes('"degraded":[]') || undefined,
        () => 'readiness without trouble',
      );
      assert.equal((await weir.stop()).code, 0);
    });
  }

  test('parts that were cut short: the log names the tables whose rows are left out', async () => {
    const { weir } = await startDamaged(async (folder) => {
      const files = await filesOf(folder, /^store\/.*\/20\d+_[^/]*\/.*\.\w+$/);
      assert.ok(files.length > 0);
      for (const file of files) await truncate(file, 3);
    });
    const said = await weir.untilStderr(/damaged on disk and are left out.*table=requests/);
    assert.match(said, /error .*folders named detached/);
    await isStored(weir, await chat(weir));
    assert.equal((await get(weir, `/v1/logs/${stored}`)).status, 404);
    assert.equal((await weir.stop()).code, 0);
  });
});
