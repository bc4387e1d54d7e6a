import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { openKeys, withNewKey, withoutPreviousKeys, sealingKey } from './key-file.ts';

async function folder(t: TestContext): Promise<string> {
  const made = await mkdtemp(path.join(tmpdir(), 'weir-keys-'));
  t.after(() => rm(made, { recursive: true }));
  return made;
}

const none = { current: undefined, previous: undefined };
const [first, second] = [randomBytes(32), randomBytes(32)];

describe('without a variable', () => {
  test('a key file is made once, for this user alone', async (t) => {
    const data = await folder(t);
    const made = await openKeys(data, none);
    const file = path.join(data, 'secret.key');
    assert.deepEqual([made.isNew, made.fromVariable, made.file?.path], [true, false, file]);
    assert.equal((await stat(file)).mode & 0o777, 0o600);
    assert.deepEqual(await readFile(file, 'utf8'), `${made.current.bytes.toString('base64')}\n`);
    const again = await openKeys(data, { current: ' ', previous: '' });
    assert.deepEqual([again.isNew, again.current.id, again.previous], [false, made.current.id, []]);
  });

  test('a file that others can read is refused', { skip: process.platform === 'win32' }, async (t) => {
    const data = await folder(t);
    await openKeys(data, none);
    await chmod(path.join(data, 'secret.key'), 0o640);
    for (const variables of [none, { ...none, current: first.toString('hex') }]) {
      await assert.rejects(openKeys(data, variables), /can be read by others \(mode 640\).*chmod 600/);
    }
  });

  test('a file that holds no keys is refused', async (t) => {
    const data = await folder(t);
    for (const text of ['', '\n', 'short', 'x'.repeat(70_000), `${first.toString('base64')}\nnonsense`]) {
      await writeFile(path.join(data, 'secret.key'), text, { mode: 0o600 });
      await assert.rejects(openKeys(data, none), /secret\.key is (damaged|not 32 bytes)/);
    }
  });

  test('a new key comes before the others until these are dropped', async (t) => {
    const data = await folder(t);
    const { file, current } = await openKeys(data, none);
    assert.ok(file);
    const changed = await withNewKey(file);
    const between = await openKeys(data, none);
    assert.notEqual(between.current.id, current.id);
    assert.deepEqual(
      between.previous.map(({ id }) => id),
      [current.id],
    );
    await withoutPreviousKeys(changed);
    const after = await openKeys(data, none);
    assert.deepEqual([after.current.id, after.previous], [between.current.id, []]);
    assert.equal((await stat(file.path)).mode & 0o777, 0o600);
  });
});

describe('with variables', () => {
  test('a key is 32 bytes as base64, base64url or hexadecimal digits, and its id is always the same', async (t) => {
    const data = await folder(t);
    for (const encoding of ['base64', 'base64url', 'hex'] as const) {
      const { current, fromVariable, file } = await openKeys(data, {
        ...none,
        current: ` ${first.toString(encoding)}\n`,
      });
      assert.deepEqual([current.id, fromVariable, file], [sealingKey(first).id, true, undefined]);
    }
  });

  test('older keys open: those of the variable, and those of a file that is there', async (t) => {
    const data = await folder(t);
    const { current: filed } = await openKeys(data, none);
    const keys = await openKeys(data, {
      current: first.toString('hex'),
      previous: `${second.toString('base64')}, ${second.toString('hex')},`,
    });
    const expected = [sealingKey(second).id, sealingKey(second).id, filed.id];
    assert.deepEqual(
      keys.previous.map(({ id }) => id),
      expected,
    );
  });

  const wrong = ['secret', 'a passphrase of more than thirty-two letters', randomBytes(31).toString('hex')];
  for (const text of [...wrong, randomBytes(33).toString('base64')]) {
    test(`refused, with a command that makes one and without its text: ${text.length} letters`, async (t) => {
      const data = await folder(t);
      const refused = async (variables: { current?: string; previous?: string }, name: RegExp) => {
        await assert.rejects(openKeys(data, { ...none, ...variables }), (error: Error) => {
          assert.match(error.message, name);
          assert.match(error.message, /openssl rand -base64 32/);
          assert.ok(!error.message.includes(text));
          return true;
        });
      };
      await refused({ current: text }, /^WEIR_SECRET_KEY is not 32 bytes/);
      await refused({ previous: text }, /^Key 1 of WEIR_SECRET_KEY_PREVIOUS is not 32 bytes/);
    });
  }

  test('more older keys than 20 are refused', async (t) => {
    const previous = Array.from({ length: 21 }, () => first.toString('hex')).join(',');
    await assert.rejects(openKeys(await folder(t), { ...none, previous }), /names 21 keys; 20 are the most/);
  });
});
