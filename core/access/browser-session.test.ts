import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { createSecretBox, sealingKey } from '../../storage/secrets/key-file.ts';
import { TestClock } from '../../tests/kit/plugin-kit.ts';
import { testSecrets } from '../../tests/kit/test-secrets.ts';
import { BrowserSessions } from './browser-session.ts';

const origin = 'http://127.0.0.1:8787';

/** The cookie that a browser would send back. */
function cookieIn(headers: readonly string[]): string {
  return (headers[1] ?? '').split(';')[0] ?? '';
}

describe('sessions of browsers', () => {
  test('give the credential back for the cookie and its token together, and for neither alone', () => {
    const sessions = new BrowserSessions({ secrets: testSecrets, clock: new TestClock() });
    const { headers, session } = sessions.begin('wk_of_ann', origin, 60_000);
    const cookie = cookieIn(headers);
    assert.equal(sessions.credential(`other=1; ${cookie}`, session.csrf, origin), 'wk_of_ann');
    assert.equal(sessions.credential(cookie, undefined, origin), undefined);
    assert.equal(sessions.credential(cookie, `${session.csrf}x`, origin), undefined);
    assert.equal(sessions.credential(undefined, session.csrf, origin), undefined);
  });

  test('end with their time', () => {
    const clock = new TestClock();
    const sessions = new BrowserSessions({ secrets: testSecrets, clock });
    const { headers, session } = sessions.begin('wk_of_ann', origin, 60_000);
    clock.advance(59_999);
    assert.equal(sessions.credential(cookieIn(headers), session.csrf, origin), 'wk_of_ann');
    clock.advance(1);
    assert.equal(sessions.credential(cookieIn(headers), session.csrf, origin), undefined);
  });

  test('of another secret key, or changed by a byte, are none', () => {
    const clock = new TestClock();
    const sessions = new BrowserSessions({ secrets: testSecrets, clock });
    const secrets = createSecretBox({ current: sealingKey(Buffer.alloc(32, 'another')), previous: [] });
    const { headers, session } = sessions.begin('wk_of_ann', origin, 60_000);
    const cookie = cookieIn(headers);
    assert.equal(new BrowserSessions({ secrets, clock }).credential(cookie, session.csrf, origin), undefined);
    const start = cookie.indexOf('=') + 1;
    fc.assert(
      fc.property(
        fc.integer({ min: start, max: cookie.length - 1 }),
        fc.constantFrom('A', 'B', '.', ''),
        (at, letter) => {
          const changed = cookie.slice(0, at) + letter + cookie.slice(at + 1);
          fc.pre(changed !== cookie);
          // The last letters of base64url may differ in bits that stand for nothing.
          fc.pre(at < cookie.length - 1);
          assert.equal(sessions.read(changed, origin), undefined);
        },
      ),
    );
  });

  test('are for this host alone where there is TLS, and not for scripts anywhere', () => {
    const sessions = new BrowserSessions({ secrets: testSecrets, clock: new TestClock() });
    const [, secure = ''] = sessions.begin('wk', 'https://weir.example', 60_000).headers;
    assert.match(secure, /^__Host-weir-console=\S+; Path=\/; Max-Age=60; HttpOnly; SameSite=Strict; Secure$/);
    const [, plain = ''] = sessions.begin('wk', origin, 60_000).headers;
    assert.match(plain, /^weir-console=\S+; Path=\/; Max-Age=60; HttpOnly; SameSite=Strict$/);
    const elsewhere = 'https://weir.example';
    assert.equal(sessions.read(plain.split(';')[0], origin)?.credential, 'wk');
    assert.equal(sessions.read(secure.split(';')[0], elsewhere)?.credential, 'wk');
    assert.equal(sessions.read(plain.split(';')[0], elsewhere), undefined, 'other hosts can set it');
    assert.match(sessions.end(origin)[1] ?? '', /^weir-console=; Path=\/; Max-Age=0;/);
  });

  test('for a credential that is too long for a cookie are refused, with its length', () => {
    const sessions = new BrowserSessions({ secrets: testSecrets, clock: new TestClock() });
    assert.throws(
      () => sessions.begin('e'.repeat(4000), origin, 60_000),
      /The credential has 4000 characters.*3800 bytes/,
    );
  });
});
