import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../../core/ports/clock.ts';
import { recordingLog, temporaryFolder, testClock } from './chdb-fixture.ts';
import { dataFolderHolder, DataFolderInUse, lockData, ownSystem, processIdentity } from './data-lock.ts';

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

const lockFolder = (): string => join(data, '.run', 'lock');
const claims = async (): Promise<string[]> =>
  (await readdir(lockFolder())).filter((name) => name.endsWith('.claim'));

/** Puts down the claim of a process that holds the folder; what it returns counts it up. */
async function claim(of: Readonly<Record<string, unknown>>): Promise<(beat: string) => Promise<void>> {
  await mkdir(lockFolder(), { recursive: true, mode: 0o700 });
  const id = (of['id'] as string | undefined) ?? randomBytes(8).toString('hex');
  const system = await ownSystem();
  const write = (beat: string): Promise<void> =>
    writeFile(
      join(lockFolder(), `${id}.claim`),
      JSON.stringify({ id, holds: 'yes', host: 'here', system, device: 0, socket: 0, beat, ...of }),
    );
  await write('0'.repeat(12));
  return write;
}

/** A listening socket beside a claim of ours, and what the claim says of it. */
async function socketOf(id: string): Promise<{ readonly server: Server; device: number; socket: number }> {
  await mkdir(lockFolder(), { recursive: true, mode: 0o700 });
  const path = join(lockFolder(), `${id}.sock`);
  const server = createServer().listen(path);
  await once(server, 'listening');
  const { dev: device, ino: socket } = await stat(path);
  return { server, device, socket };
}

/** A clock whose timers run when the test says so. */
function steppedClock(): Clock & { step(): void } {
  const timers = new Set<() => void>();
  return {
    ...testClock,
    after(_ms, run) {
      timers.add(run);
      return () => timers.delete(run);
    },
    step() {
      const due = [...timers];
      timers.clear();
      for (const run of due) run();
    },
  };
}

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  for (const end = performance.now() + 10_000; !(await holds()); await delay(10))
    assert.ok(performance.now() < end, 'it never came');
}

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
  assert.equal((await claims()).length, 1);
  await taken.release();
  assert.deepEqual(await readdir(lockFolder()), [], 'neither claims nor sockets are left');
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
  await claim({ pid: process.pid, identity: '00000000.1' });
  await (await lock()).release();
});

test('a dead process does not hold the folder, even where its children still have its socket', async () => {
  // Deno hands the sockets of a process to the processes that it starts.
  const id = randomBytes(8).toString('hex');
  const { server, ...found } = await socketOf(id);
  try {
    await claim({ id, ...found, pid: process.pid, identity: '00000000.1' });
    await (await lock()).release();
  } finally {
    server.close();
  }
});

test('a process without a socket is found by its number where that means the same', async () => {
  await claim({ pid: process.pid, identity: await processIdentity(process.pid) });
  await assert.rejects(lock(), new RegExp(`in use by process ${process.pid}:`));
});

test('a claim of another machine is watched: it holds while it moves, and is dead when it stands still', async () => {
  const far = { pid: 7, system: { kernel: 'another', space: 'another' }, host: 'far' };
  const write = await claim(far);
  let beats = 0;
  const beating = setInterval(() => void write(String((beats += 1)).padStart(12, '0')), 500);
  const lines = recordingLog();
  try {
    await assert.rejects(lockData(data, { clock: testClock, log: lines }), (error: Error) => {
      assert.match(error.message, /process 7 of another container or machine \(its host name is far\): stop/);
      return true;
    });
  } finally {
    clearInterval(beating);
  }
  assert.match(lines.lines.join('\n'), /cannot be seen from here; whether it still runs shows within 10 s/);
  const began = performance.now();
  await (await lock()).release();
  assert.ok(performance.now() - began >= 9_900, 'it was watched for the whole time');
});

test('a file that is no claim is watched as well, and neither holds for ever nor breaks a start', async () => {
  await mkdir(lockFolder(), { recursive: true, mode: 0o700 });
  await writeFile(join(lockFolder(), `${'0'.repeat(16)}.claim`), '{"id":');
  await (await lock()).release();
});

test('a holder whose claim was taken for dead is told as soon as it goes on', async () => {
  const told: string[] = [];
  const clock = steppedClock();
  const first = await lockData(data, { clock, onLost: (reason) => told.push(reason) });
  for (const name of await claims()) await rm(join(lockFolder(), name));
  clock.step();
  // No other process came: the claim is put back.
  await until(async () => (await claims()).length === 1);
  for (const name of await claims()) await rm(join(lockFolder(), name));
  await claim({ pid: 7, host: 'far', system: { kernel: 'another', space: 'another' } });
  await until(() => (clock.step(), told.length > 0));
  assert.deepEqual(told, [
    'the data folder was taken over by process 7 of far, because this one stood still for too long',
  ]);
  await first.release();
});

test('the lock stands in the folder itself, for this user alone, however deep that is', async () => {
  for (const directory of [data, join(data, 'd'.repeat(100), 'e'.repeat(100))]) {
    const held = await lock(directory);
    assert.equal((await stat(join(directory, '.run'))).mode & 0o777, 0o700);
    assert.equal((await stat(directory)).mode & 0o777, 0o700);
    const names = await readdir(join(directory, '.run', 'lock'));
    assert.deepEqual(names.map((name) => name.split('.')[1]).sort(), ['claim', 'sock']);
    await assert.rejects(lock(directory), DataFolderInUse);
    await held.release();
  }
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
  assert.equal((await dataFolderHolder(data))?.pid, child.pid);
  child.kill('SIGKILL');
  await once(child, 'exit');
  assert.equal(await dataFolderHolder(data), undefined);
  const taken = await lock();
  assert.equal((await dataFolderHolder(data))?.pid, process.pid, 'asking has left nothing in the way');
  await taken.release();
});
