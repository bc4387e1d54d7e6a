import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { createSecretBox, sealingKey } from './key-file.ts';

const [one, two] = [sealingKey(randomBytes(32)), sealingKey(randomBytes(32))];
const box = createSecretBox({ current: one, previous: [] });

describe('a secret box', () => {
  test('opens what it sealed, whatever the text, and never seals the same twice', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.string(), (text, context) => {
        const sealed = box.seal(text, context);
        assert.match(sealed, /^v1\.[0-9a-f]{12}\.[\w-]{16}\.[\w-]{22,}$/);
        assert.equal(box.open(sealed, context), text);
        assert.notEqual(box.seal(text, context), sealed);
        assert.ok(text.length < 4 || !sealed.includes(text));
      }),
    );
  });

  test('does not open what was moved to another record or field', () => {
    const sealed = box.seal('secret-value', 'record-1/key');
    for (const context of ['record-2/key', 'record-1/other', '']) {
      assert.throws(() => box.open(sealed, context), { code: 'internal', message: /changed, or moved/ });
    }
  });

  test('does not open what was changed, wherever', () => {
    const sealed = box.seal('secret-value', 'c');
    for (let at = 0; at < sealed.length; at++) {
      const other = sealed[at] === 'A' ? 'B' : 'A';
      const changed = sealed.slice(0, at) + other + sealed.slice(at + 1);
      // The last letter of base64url may hold bits that stand for nothing.
      if (Buffer.from(changed.split('.')[3] ?? '', 'base64url').equals(bytesOf(sealed)) && at > 30) continue;
      assert.throws(() => box.open(changed, 'c'), { code: 'internal' }, `letter ${at}`);
    }
    for (const broken of ['', 'v1', 'v1.x.y.z', sealed.slice(0, 40), `${sealed}.more`, 'plain text']) {
      assert.throws(() => box.open(broken, 'c'), { code: 'internal' }, broken);
    }
  });

  test('says which key is missing, and no text of the secret', () => {
    const sealed = createSecretBox({ current: two, previous: [] }).seal('secret-value', 'c');
    assert.throws(() => box.open(sealed, 'c'), {
      code: 'internal',
      message: new RegExp(`sealed with the key ${two.id}.*WEIR_SECRET_KEY_PREVIOUS`),
    });
  });

  test('opens what an older key sealed, and knows that it is not the present one', () => {
    const old = createSecretBox({ current: two, previous: [] }).seal('secret-value', 'c');
    const both = createSecretBox({ current: one, previous: [two] });
    assert.equal(both.open(old, 'c'), 'secret-value');
    assert.deepEqual([both.isCurrent(old), both.isCurrent(both.seal('x', 'c'))], [false, true]);
    assert.deepEqual([both.keyId, one.id === two.id], [one.id, false]);
  });
});

function bytesOf(sealed: string): Buffer {
  return Buffer.from(sealed.split('.')[3] ?? '', 'base64url');
}
