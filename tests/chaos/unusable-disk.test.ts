import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';

const main = fileURLToPath(new URL('../../main.ts', import.meta.url));
const config = `version: 1
storage: { analytics: { url: "none:" } }
pipelines:
  - { name: admin, match: { routes: contributed }, plugins: [auth, management] }
  - { name: gateway, match: { path: /** }, plugins: [auth, provider] }
`;

/**
 * What `weir start` says with its data on a small disk of its own, mounted in a name space that ends with the process.
 * `prepare` is a shell command that runs on the disk (`$1`) before the start.
 */
async function startOn(
  t: TestContext,
  size: string,
  prepare: string,
): Promise<{ code: number | null; said: string }> {
  const folder = await mkdtemp(path.join(tmpdir(), 'weir-disk-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const disk = path.join(folder, 'disk');
  await mkdir(disk);
  await writeFile(path.join(folder, 'gateway.config.yaml'), config);
  const isRoot = process.getuid?.() === 0;
  const script = `mount -t tmpfs -o size=${size},mode=700 tmpfs "$1" || exit 97; ${prepare}; shift
    exec "$@"`;
  const command = [process.execPath, '--import', import.meta.resolve('tsx'), main, 'start', '--port', '0'];
  const place = ['--data', path.join(disk, 'data'), '--config', path.join(folder, 'gateway.config.yaml')];
  const { status, stderr, error } = spawnSync(
    'unshare',
    [...(isRoot ? [] : ['--map-root-user']), '--mount', 'sh', '-c', script, 'sh', disk, ...command, ...place],
    { encoding: 'utf8', timeout: 90_000, cwd: folder },
  );
  assert.equal(error, undefined);
  assert.notEqual(status, 97, `no disk could be mounted: ${stderr}`);
  return { code: status, said: stderr };
}

const errorsOf = (said: string): string[] => said.split('\n').filter((line) => / error /.test(line));

describe('a data folder that cannot be written to', () => {
  test('on a full disk: one sentence with the cause and the remedy', async (t) => {
    const { code, said } = await startOn(t, '1m', 'cat /dev/zero >"$1/filler" 2>/dev/null');
    const errors = errorsOf(said);
    assert.equal(code, 1);
    assert.equal(errors.length, 1, said);
    assert.match(
      errors[0] ?? '',
      /nothing can be written to .*: the disk is full \(ENOSPC.*Free some of it, or name/,
    );
  });

  test('on a disk that is mounted read-only, where the folder is there already', async (t) => {
    const { code, said } = await startOn(t, '1m', 'mkdir -m 700 "$1/data"; mount -o remount,ro "$1"');
    const errors = errorsOf(said);
    assert.equal(code, 1);
    assert.equal(errors.length, 1, said);
    assert.match(
      errors[0] ?? '',
      /nothing can be written to .*: the file system is mounted read-only .*Mount it for writing/,
    );
  });

  test('on a disk that becomes full while the stores are made', async (t) => {
    const { code, said } = await startOn(t, '24m', 'true');
    const [last = ''] = errorsOf(said).slice(-1);
    assert.equal(code, 1);
    assert.match(
      last,
      /could not open .*(its disk is full \(\d+ MiB are free|the disk is full \(ENOSPC).*Free some of it/,
    );
    assert.doesNotMatch(said, /ASSERTIONS|\[object Object\]/);
  });
});
