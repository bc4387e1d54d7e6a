import assert from 'node:assert/strict';
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { temporaryFolder, testClock } from './chdb-fixture.ts';
import { dataFolderHolder, DataFolderInUse, lockData } from './data-lock.ts';
import { processIdentity } from './process-identity.ts';
import { runtimeFolder } from './runtime-folder.ts';

let folder: Awaited<ReturnType<typeof temporaryFolder>>;
let data: string;
const children: ChildProcess[] = [];

beforeEach(async () => {
  folder = await temporaryFolder();
  data = join(folder.path, 'data');
  await mkdir(data);
});
afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  await folder.remove();
});

const lock = (directory = data): ReturnType<typeof lockData> => lockData(directory, { clock: testClock });

/** A process that tries to take the folder when told, answers with the outcome, and then does nothing. */
async function contender(): Promise<{ child: ChildProcess; take: () => Promise<string> }> {
  const source = join(folder.path, 'contender.mts');
  const module = new URL('./data-lock.ts', import.meta.url).href;
  await writeFile(
    source,
    `import { lockData } from ${JSON.stringify(module)};
     const clock = { now: Date.now, monotonic: () => 0, after: () => () => undefined };
     process.on('message', () => lockData(${JSON.stringify(data)}, { clock }).then(
       () => process.send('held'), (error) => process.send(error.name + ': ' + error.message)));
     process.send('ready');`,
  );
  const child = fork(source, { execArgv: ['--import', import.meta.resolve('tsx')] });
  children.push(child);
  await once(child, 'message');
  return {
    child,
    async take() {
      const answer = once(child, 'message');
      child.send('take');
      const [outcome] = (await answer) as [string];
      return outcome;
    },
  };
}

test('the folder of another process is refused with its name and number', async () => {
  const { child, take } = await contender();
  assert.equal(await take(), 'held');
  await assert.rejects(lock(), (error) => {
    assert.ok(error instanceof DataFolderInUse);
    assert.deepEqual([error.directory, error.pid], [data, child.pid]);
    assert.ok(error.message.includes(data) && error.message.includes(String(child.pid)));
    return true;
  });
});

test('a holder killed with -9 leaves a lock that the next start recognises as stale', async () => {
  const { child, take } = await contender();
  assert.equal(await take(), 'held');
  child.kill('SIGKILL');
  await once(child, 'exit');
  const taken = await lock();
  assert.equal((await readdir(join(await runtimeFolder(data), 'lock'))).length, 1);
  await taken.release();
});

test('of many that start together one at most gets the folder, also over a stale lock', async () => {
  const killed = await contender();
  await killed.take();
  killed.child.kill('SIGKILL');
  await once(killed.child, 'exit');
  const rivals = await Promise.all(Array.from({ length: 4 }, contender));
  const outcomes = await Promise.all(rivals.map((rival) => rival.take()));
  assert.equal(outcomes.filter((outcome) => outcome === 'held').length, 1, outcomes.join('\n'));
  for (const outcome of outcomes) assert.match(outcome, /^held$|^DataFolderInUse: .*data folder of its own$/);
});

test('the same process cannot take it twice, and can after a release', async () => {
  const first = await lock();
  await assert.rejects(lock(), DataFolderInUse);
  await first.release();
  await (await lock()).release();
});

test('every spelling of the path leads to the same lock, other folders to others', async () => {
  const link = join(folder.path, 'link');
  await symlink(data, link);
  const held = await lock();
  await assert.rejects(lock(link), DataFolderInUse);
  await assert.rejects(lock(`${data}/../data/`), DataFolderInUse);
  const other = join(folder.path, 'other');
  await (await lock(other)).release();
  await held.release();
});

test('a number that now belongs to another process does not hold the folder', async () => {
  const place = join(await runtimeFolder(data), 'lock');
  await mkdir(place, { recursive: true });
  await writeFile(join(place, `${process.pid}_00000000.1_0123456789abcdef`), 'held');
  await (await lock()).release();
});

test('the lock stands in a folder for this user alone, outside the data', async () => {
  const held = await lock();
  const runtime = await runtimeFolder(data);
  assert.equal((await stat(runtime)).mode & 0o777, 0o700);
  assert.deepEqual(await readdir(data), []);
  await held.release();
});

test('a living process has a lasting identity, a dead one none', async () => {
  const own = await processIdentity(process.pid);
  assert.ok(own !== undefined && own !== '');
  assert.equal(await processIdentity(process.pid), own);
  const { child } = await contender();
  assert.notEqual(await processIdentity(child.pid as number), undefined);
  child.kill('SIGKILL');
  await once(child, 'exit');
  assert.equal(await processIdentity(child.pid as number), undefined);
});

test('who holds a folder can be asked without taking it', async () => {
  assert.equal(await dataFolderHolder(data), undefined);
  const { child, take } = await contender();
  assert.equal(await take(), 'held');
  assert.equal(await dataFolderHolder(data), child.pid);
  child.kill('SIGKILL');
  await once(child, 'exit');
  assert.equal(await dataFolderHolder(data), undefined);
  const taken = await lock();
  assert.equal(await dataFolderHolder(data), process.pid, 'asking has left nothing in the way');
  await taken.release();
});
