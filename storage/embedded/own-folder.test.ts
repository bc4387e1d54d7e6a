import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmod, chown, mkdir, readdir, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { recordingLog, temporaryFolder } from './chdb-fixture.ts';
import { privateFolders } from './own-folder.ts';

let folder: Awaited<ReturnType<typeof temporaryFolder>>;
let data: string;
beforeEach(async () => {
  folder = await temporaryFolder();
  data = join(folder.path, 'data');
});
afterEach(() => folder.remove());

const modeOf = async (path: string): Promise<string> => ((await stat(path)).mode & 0o777).toString(8);

test('a folder that is made is for its owner alone, whatever the umask is', async () => {
  const before = process.umask(0);
  try {
    await privateFolders.runtime(join(data, 'deep'));
  } finally {
    process.umask(before);
  }
  assert.deepEqual([await modeOf(data), await modeOf(join(data, 'deep'))], ['700', '700']);
  assert.equal(await modeOf(join(data, 'deep', '.run')), '700');
});

test('a place that takes no folders is refused at once, with the remedy', async () => {
  const file = join(folder.path, 'file');
  await writeFile(file, '');
  for (const place of ['/proc/weir', '/proc/self/deep/weir', file, join(file, 'below')])
    await assert.rejects(privateFolders.own(place), /The data folder cannot be made: .*--data, WEIR_DATA/);
});

test('several that make their folders at once, each below one that none of them has, all get theirs', async () => {
  for (let round = 0; round < 100; round++) {
    const shared = join(data, String(round), 'workers');
    await Promise.all(
      Array.from({ length: 6 }, async (_, number) => {
        for (let turns = 0; turns < number; turns++) await new Promise(setImmediate);
        await privateFolders.own(join(shared, String(number)));
      }),
    );
  }
});

test('what an older version left open is closed, and the log says so once', async () => {
  await mkdir(join(data, 'journal', 'quarantine'), { recursive: true });
  const elsewhere = join(folder.path, 'elsewhere');
  await writeFile(elsewhere, 'x', { mode: 0o644 });
  await writeFile(join(data, 'identity.json'), '{}');
  await writeFile(join(data, 'secret.key'), 'x');
  await writeFile(join(data, 'journal', 'quarantine', 'row'), 'x');
  await symlink(elsewhere, join(data, 'link'));
  for (const path of ['', 'journal', 'journal/quarantine']) await chmod(join(data, path), 0o777);
  for (const path of ['identity.json', 'secret.key', 'journal/quarantine/row'])
    await chmod(join(data, path), 0o666);
  await chmod(elsewhere, 0o644);
  const log = recordingLog();
  await privateFolders.closeToOthers(data, log);
  for (const path of ['', 'journal', 'journal/quarantine'])
    assert.equal(await modeOf(join(data, path)), '700', path);
  for (const path of ['identity.json', 'journal/quarantine/row'])
    assert.equal(await modeOf(join(data, path)), '600');
  assert.equal(await modeOf(elsewhere), '644', 'links are not followed');
  assert.equal(await modeOf(join(data, 'secret.key')), '666', 'its reader refuses it and says what to do');
  assert.equal(log.lines.length, 1);
  assert.match(
    log.lines[0] as string,
    /could be read by other users of this machine; it was closed.*change the keys/,
  );
  await privateFolders.closeToOthers(data, log);
  assert.equal(log.lines.length, 1, 'closed already: nothing is said');
});

test('folders and files of another user are refused with their owner and the remedy', async (t) => {
  const uid = process.getuid?.();
  // Another owner is made by giving it away, which only root may; for others the root folder is one.
  if (uid !== 0) {
    await assert.rejects(
      privateFolders.own('/'),
      /the data folder \/ belongs to user 0, and this process runs as .*chown -R/,
    );
    return;
  }
  await mkdir(data);
  await writeFile(join(data, 'theirs'), 'x');
  await chown(join(data, 'theirs'), 65_534, 65_534);
  await assert.rejects(privateFolders.closeToOthers(data, recordingLog()), (error: Error) => {
    assert.match(
      error.message,
      /theirs in the data folder belongs to user 65534, and this process runs as \S+ \(0\)/,
    );
    assert.ok(error.message.includes(`chown -R 0 ${data}`));
    return true;
  });
  await chown(data, 65_534, 65_534);
  await assert.rejects(
    privateFolders.own(data),
    /belongs to user 65534, and this process runs as .*run it as the owner/,
  );
  assert.deepEqual(await readdir(data), ['theirs'], 'nothing was made in it');
  t.diagnostic('as root');
});

test('a socket whose path would be too long gets a folder that only this user can open', async () => {
  const near = await privateFolders.socket(data, 's');
  assert.equal(near.path, join(data, '.run'));
  await near.remove();
  const deep = join(data, 'd'.repeat(120));
  const far = await privateFolders.socket(deep, 's');
  assert.ok(!far.path.startsWith(deep) && join(far.path, 's').length <= 103, far.path);
  assert.equal(await modeOf(far.path), '700');
  await far.remove();
  await assert.rejects(stat(far.path), /ENOENT/);
});

test('the command writes privately from its first file on', () => {
  const source = new URL('./own-folder.ts', import.meta.url).href;
  const code = `import { privateFolders } from ${JSON.stringify(source)}; process.umask(0); privateFolders.writePrivately(); console.log(process.umask().toString(8));`;
  const { stdout } = spawnSync(
    process.execPath,
    ['--import', import.meta.resolve('tsx'), '--input-type=module', '-e', code],
    { encoding: 'utf8' },
  );
  assert.equal(stdout.trim(), '77');
});
