import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { exportJWK, SignJWT, UnsecuredJWT } from 'jose';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { systemClock } from '../../core/ports/clock.ts';
import { tokenAlgorithms, type TokenVerifierOptions } from '../../core/ports/oauth.ts';
import { recordingLog, type Line } from '../../core/lifecycle/recording-services.test-support.ts';
import { createGuardedFetch } from '../guarded-fetch/guarded-fetch.ts';
import {
  forged,
  sign,
  signingKey,
  startKeyServer,
  type KeyServer,
  type SigningKey,
} from './issuer.test-support.ts';
import { createTokens } from './tokens.ts';

const start = Date.parse('2026-11-21T09:00:00.000Z');
const seconds = start / 1000;

const inAnHour = { exp: seconds + 3600 };

/** A verifier whose clock the test moves; fetches run on real time. */
function verifying(
  keys: TokenVerifierOptions['keys'],
  options: Partial<TokenVerifierOptions> = {},
  host = '',
) {
  const lines: Line[] = [];
  const log = recordingLog(lines);
  const time = { elapsed: 0 };
  const clock = {
    now: () => start + time.elapsed,
    monotonic: () => 500 + time.elapsed,
    after: () => () => undefined,
  };
  const fetch = createGuardedFetch({ log, clock: systemClock, trustedHosts: [host] });
  const verifier = createTokens({ fetch, clock, log }).verifier({
    keys,
    issuers: [],
    audiences: [],
    algorithms: tokenAlgorithms,
    clockToleranceMs: 5000,
    maxAgeMs: 600_000,
    timeoutMs: 2000,
    ...options,
  });
  return { verifier, time, warnings: () => lines.filter(({ level }) => level === 'warn') };
}

const setOf = (...keys: readonly SigningKey[]) => ({ set: { keys: keys.map(({ publicKey }) => publicKey) } });
const ofServer = (server: KeyServer, options: Partial<TokenVerifierOptions> = {}) =>
  verifying({ url: server.url }, options, server.host);

async function refusal(answer: Promise<unknown>): Promise<GatewayError> {
  const error = await answer.then(
    () => assert.fail('it was accepted'),
    (thrown: unknown) => thrown,
  );
  assert.ok(GatewayError.is(error), String(error));
  return error;
}

describe('tokens are verified', () => {
  for (const algorithm of tokenAlgorithms) {
    test(`signed with ${algorithm}`, async () => {
      const key = await signingKey(algorithm);
      const { verifier } = verifying(setOf(key));
      const token = await sign(key, { ...inAnHour, sub: 'ada' });
      assert.deepEqual(await verifier.verify(token), {
        claims: { ...inAnHour, sub: 'ada' },
        expiresAt: start + 3_600_000,
      });
      assert.equal(await verifier.accepts(token), true);
      const error = await refusal(verifier.verify(forged(token)));
      assert.match(error.message, /^The token has a signature that is not of the key/);
      assert.equal(await verifier.accepts(forged(token)), false);
    });
  }
});

describe('tokens are refused, with the reason', async () => {
  const key = await signingKey('ES256', 'main');
  const other = await signingKey('ES256', 'main');
  const rsa = await signingKey('RS256', 'rsa');
  const keys = setOf(key, rsa);
  const secret = new SignJWT(inAnHour).setProtectedHeader({ alg: 'HS256', kid: 'main' });
  const shared = await secret.sign(new TextEncoder().encode(JSON.stringify(key.publicKey).padEnd(32)));
  const nobody = Buffer.from('{"alg":"ES256","kid":"main"}').toString('base64url');
  const text = Buffer.from('"text"').toString('base64url');
  const at = (offset: number) => seconds + offset;

  const cases: readonly [
    name: string,
    token: string | Promise<string>,
    reason: RegExp | undefined,
    options?: Partial<TokenVerifierOptions>,
  ][] = [
    ['of another key with the same id', sign(other, inAnHour), /signature that is not of the key/],
    [
      'of an unknown key',
      sign(key, inAnHour, { kid: 'x' }),
      /key "x", which is none of the 2 that are known/,
    ],
    ['without a key, of two', sign({ ...key, kid: undefined }, inAnHour), /\(kid\), and there are 2 keys/],
    ['of a key of another kind', sign(key, inAnHour, { kid: 'rsa' }), /is not one for that/],
    [
      'without a signature',
      new UnsecuredJWT(inAnHour).encode(),
      /signed with "none" \(alg\), which is not accepted/,
    ],
    ['with a shared secret', shared, /signed with "HS256" \(alg\), which is not accepted/],
    [
      'by an algorithm that is not chosen',
      sign(key, inAnHour),
      /"ES256".*Have it signed with RS256\./,
      { algorithms: ['RS256'] },
    ],
    ['with extensions', sign(key, inAnHour, { crit: ['b64'], b64: true }), /extensions \(crit\)/],
    ['with a header that is no JSON', 'eyJhbGci.e30.AA', /malformed: its header/],
    ['longer than any', `eyJ${'A'.repeat(16_384)}.e30.AA`, /longer than 16384/],
    ['with a forged payload', `${nobody}.${text}.AA`, /signature that is not of the key/],
    ['without exp', sign(key, {}), /has no claim "exp"/],
    [
      'with exp that is no number',
      sign(key, { exp: '1' as unknown as number }),
      /claim "exp" that is no time/,
    ],
    ['with exp beyond all dates', sign(key, { exp: 1e20 }), /claim "exp" that is no time/],
    ['expired, within the tolerance', sign(key, { exp: at(-4) }), undefined],
    ['expired', sign(key, { exp: at(-5) }), /expired at 2026-11-21T08:59:55\.000Z\. Get a new one/],
    ['expired, without tolerance', sign(key, { exp: at(0) }), /expired/, { clockToleranceMs: 0 }],
    ['not yet valid, within the tolerance', sign(key, { ...inAnHour, nbf: at(5) }), undefined],
    [
      'not yet valid',
      sign(key, { ...inAnHour, nbf: at(6) }),
      /not valid before 2026-11-21T09:00:06\.000Z \(nbf\)/,
    ],
    ['issued in the future, within the tolerance', sign(key, { ...inAnHour, iat: at(5) }), undefined],
    [
      'issued in the future',
      sign(key, { ...inAnHour, iat: at(6) }),
      /issued at 2026-11-21T09:00:06\.000Z \(iat\)/,
    ],
    [
      'of an issuer that is accepted',
      sign(key, { ...inAnHour, iss: 'b' }),
      undefined,
      { issuers: ['a', 'b'] },
    ],
    [
      'of another issuer',
      sign(key, { ...inAnHour, iss: 'evil\n' }),
      /issued by "evil\?" \(iss\)/,
      { issuers: ['a'] },
    ],
    ['of no issuer', sign(key, inAnHour), /names no issuer/, { issuers: ['a'] }],
    [
      'for one of several audiences',
      sign(key, { ...inAnHour, aud: ['x', 'b'] }),
      undefined,
      { audiences: ['a', 'b'] },
    ],
    [
      'for another audience',
      sign(key, { ...inAnHour, aud: ['x'] }),
      /meant for "\["x"\]" \(aud\)/,
      { audiences: ['a'] },
    ],
    [
      'for a URL below an audience that ends in /*',
      sign(key, { ...inAnHour, aud: 'https://gateway.example.com/tickets/mcp' }),
      undefined,
      { audiences: ['a', 'https://gateway.example.com/*'] },
    ],
    [
      'for the URL before the /* of an audience',
      sign(key, { ...inAnHour, aud: 'https://gateway.example.com' }),
      undefined,
      { audiences: ['https://gateway.example.com/*'] },
    ],
    [
      'for a host that only begins like that of an audience that ends in /*',
      sign(key, { ...inAnHour, aud: 'https://gateway.example.com.evil.example/mcp' }),
      /meant for "https:\/\/gateway\.example\.com\.evil/,
      { audiences: ['https://gateway.example.com/*'] },
    ],
    ['for no audience', sign(key, inAnHour), /names no audience/, { audiences: ['a'] }],
  ];
  for (const [name, signed, reason, options] of cases) {
    test(name, async () => {
      const token = await signed;
      const { verifier } = verifying(keys, options);
      if (reason === undefined) {
        assert.ok((await verifier.verify(token)).expiresAt > 0);
        return;
      }
      const error = await refusal(verifier.verify(token));
      assert.equal(error.code, 'token_invalid');
      assert.equal(error.status, 401);
      assert.match(error.message, reason);
      assert.deepEqual(error.headers, ['www-authenticate', 'Bearer error="invalid_token"']);
      for (const part of token.split('.').filter((one) => one.length > 8))
        assert.ok(!error.message.includes(part), 'the token is echoed');
      assert.equal(await verifier.accepts(token), false);
    });
  }

  test('a token without a key id is of the only key of a set', async () => {
    const only = await signingKey('EdDSA', undefined);
    const { verifier } = verifying(setOf(only));
    assert.ok(await verifier.verify(await sign(only, inAnHour)));
  });

  test('private keys, shared secrets and keys for encryption verify nothing', async () => {
    const set = {
      keys: [
        { kty: 'oct', k: 'AAAA', kid: 'main' },
        { ...(await exportJWK(key.privateKey)), kid: 'main' },
        { ...key.publicKey, use: 'enc' },
        { ...key.publicKey, key_ops: ['encrypt'] },
      ],
    };
    assert.throws(() => verifying({ set }), /invalid_request|no public RSA, EC or Ed25519 key/);
    const { verifier } = verifying({ set: { keys: [...set.keys, rsa.publicKey] } });
    const error = await refusal(verifier.verify(await sign(key, inAnHour)));
    assert.match(error.message, /none of the 1 that are known/);
  });

  for (const set of [
    undefined,
    [],
    {},
    { keys: {} },
    { keys: [] },
    { keys: Array(101).fill(key.publicKey) },
  ]) {
    test(`a set like ${JSON.stringify(set)?.slice(0, 30)} is refused`, () => {
      assert.throws(() => verifying({ set }), { code: 'invalid_request' });
    });
  }
});

describe('keys at an address', () => {
  const one = signingKey('ES256', 'one');
  const two = signingKey('ES256', 'two');
  const tokenOf = async (key: Promise<SigningKey>) => sign(await key, inAnHour);
  const serving = async (t: TestContext) => startKeyServer(t, await one);

  test('are read once for many tokens, and at once only once', async (t) => {
    const server = await serving(t);
    const { verifier } = ofServer(server);
    assert.equal(server.asked, 0, 'not before somebody needs them');
    const token = await tokenOf(one);
    await Promise.all(Array.from({ length: 20 }, () => verifier.verify(token)));
    await verifier.verify(token);
    assert.deepEqual([server.asked, verifier.version], [1, 1]);
  });

  test('are read again for a key that is not known, at most once in 30 seconds', async (t) => {
    const server = await serving(t);
    const { verifier, time } = ofServer(server);
    await verifier.verify(await tokenOf(one));
    server.answer = { keys: [(await two).publicKey] };
    const rotated = await tokenOf(two);
    assert.equal((await refusal(verifier.verify(rotated))).code, 'token_invalid');
    assert.equal(server.asked, 1);
    time.elapsed = 30_000;
    assert.equal(await verifier.accepts(rotated), false, 'to ask whether it would be taken fetches nothing');
    assert.equal(server.asked, 1);
    await Promise.all([verifier.verify(rotated), verifier.verify(rotated)]);
    assert.deepEqual([server.asked, verifier.version], [2, 2]);
    assert.match(
      (await refusal(verifier.verify(await tokenOf(one)))).message,
      /none of the 1 that are known/,
    );
    assert.equal(server.asked, 2);
  });

  test('are read again behind the requests when they are old, and kept when that fails', async (t) => {
    const server = await serving(t);
    const { verifier, time, warnings } = ofServer(server);
    const token = await tokenOf(one);
    await verifier.verify(token);
    time.elapsed = 599_999;
    verifier.keepFresh();
    assert.equal(server.asked, 1);
    for (const answer of [500, 'no JSON', '{"keys":[]}'] as const) {
      server.answer = answer;
      time.elapsed += 600_000;
      const asked = warnings().length;
      verifier.keepFresh();
      verifier.keepFresh();
      while (warnings().length === asked) await new Promise((resolve) => setImmediate(resolve));
      assert.ok(await verifier.accepts(await sign(await one, { exp: seconds + 100_000 })));
    }
    assert.deepEqual([server.asked, verifier.version], [4, 1]);
    const reasons = warnings().map(({ fields }) => String(fields?.['reason']));
    assert.match(reasons.join('; '), /answered 500; it answered no JSON; it holds no public RSA/);
    assert.ok(!JSON.stringify(warnings()).includes('s3cret'), 'the query is not logged');
  });

  test('that never came: 503, and another attempt after five seconds', async (t) => {
    const server = await serving(t);
    server.answer = 500;
    const { verifier, time, warnings } = ofServer(server);
    const token = await tokenOf(one);
    const errors = await Promise.all([1, 2, 3].map(() => refusal(verifier.verify(token))));
    errors.push(await refusal(verifier.verify(token)));
    for (const error of errors) {
      assert.deepEqual(
        [error.code, error.status, error.headers],
        ['token_keys_unavailable', 503, ['retry-after', '5']],
      );
    }
    assert.deepEqual([server.asked, warnings().length], [1, 1]);
    server.answer = { keys: [(await one).publicKey] };
    time.elapsed = 5000;
    assert.ok(await verifier.verify(token));
    assert.equal(server.asked, 2);
  });

  test('at a server that says nothing are given up', async (t) => {
    const server = await serving(t);
    server.answer = 'hang';
    const { verifier, warnings } = ofServer(server, { timeoutMs: 50 });
    assert.equal((await refusal(verifier.verify(await tokenOf(one)))).code, 'token_keys_unavailable');
    assert.match(JSON.stringify(warnings()), /within 50 ms/);
  });

  test('at a private address need a trusted host', async (t) => {
    const server = await serving(t);
    const { verifier, warnings } = verifying({ url: server.url });
    assert.equal((await refusal(verifier.verify(await tokenOf(one)))).code, 'token_keys_unavailable');
    assert.equal(server.asked, 0);
    assert.match(JSON.stringify(warnings()), /security\.trusted_hosts/);
  });
});
