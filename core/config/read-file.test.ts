import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { readText } from './read-file.ts';

describe('readText', () => {
  const folder = mkdtempSync(join(tmpdir(), 'weir-read-'));
  after(() => rmSync(folder, { recursive: true }));
  const write = (name: string, content: string | Buffer): string => {
    const path = join(folder, name);
    writeFileSync(path, content);
    return path;
  };

  it('leaves out a byte order mark', async () => {
    assert.deepEqual(await readText(write('bom', '\ufeffa: 1\n'), 100), { ok: true, text: 'a: 1\n' });
  });

  it('reads up to the limit and not a byte more', async () => {
    assert.deepEqual(await readText(write('full', 'x'.repeat(100)), 100), {
      ok: true,
      text: 'x'.repeat(100),
    });
    const result = await readText(write('over', 'x'.repeat(101)), 100);
    assert.deepEqual(result, { ok: false, message: 'is larger than 100 bytes; is it the right file?' });
  });

  const failures: readonly [string, () => string, RegExp][] = [
    ['a missing file', () => join(folder, 'none'), /^does not exist; create it/],
    ['a directory', () => folder, /^is a directory, not a file/],
    [
      'a file used as a directory',
      () => join(write('plain', ''), 'x'),
      /^does not exist: a part of its path is a file/,
    ],
    ['UTF-16', () => write('utf16', Buffer.from('\ufeffa: 1', 'utf16le')), /^is not UTF-8 text/],
    [
      'a link to itself',
      () => {
        symlinkSync(join(folder, 'loop'), join(folder, 'loop'));
        return join(folder, 'loop');
      },
      /^is a symbolic link that leads back/,
    ],
    [
      'a pipe, without waiting for a writer',
      () => {
        execFileSync('mkfifo', [join(folder, 'pipe')]);
        return join(folder, 'pipe');
      },
      /^is not a regular file/,
    ],
  ];
  for (const [name, path, expected] of failures)
    it(`refuses ${name}`, async () => {
      const result = await readText(path(), 100);
      assert.ok(!result.ok);
      assert.match(result.message, expected);
    });
});
