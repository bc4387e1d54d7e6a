import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { credentialHeaders } from '../base/header-names.ts';
import { callBody, ProviderCall, ShownHeaders } from './provider-call.ts';

const options = { serviceNames: ['api-key'], sensitive: undefined };
const shownHeaders = new ShownHeaders('wk_');
const plain = { origin: 'https://host.example', method: 'POST', path: '/v1/messages', headers: [] };

/** Of JSON as it stands within a JSON string. */
const parsed = (within: string): unknown => JSON.parse(JSON.parse(`"${within}"`) as string);

function told(request: Partial<ConstructorParameters<typeof ProviderCall>[0]>, clientHeaders: string[] = []) {
  const call = new ProviderCall({ ...plain, ...request }, undefined);
  return parsed(call.told(shownHeaders, { ...options, clientHeaders }).request) as {
    readonly url: string;
  };
}

describe('a call to a provider', () => {
  test('shows what the client sent, too, and what the gateway says of itself', () => {
    const headers = [
      ...[
        'User-Agent',
        'curl',
        'accept',
        'a',
        'content-type',
        'application/json',
        'accept-encoding',
        'identity',
      ],
      ...['anthropic-version', '2023-06-01', 'openai-beta', 'of-the-target', 'x-api-key', 'held'],
    ];
    assert.deepEqual(told({ headers }, ['user-agent', 'curl', 'Accept', 'b']), {
      method: 'POST',
      url: 'https://host.example/v1/messages',
      headers: {
        'user-agent': 'curl',
        accept: '***',
        'content-type': 'application/json',
        'accept-encoding': 'identity',
        'anthropic-version': '2023-06-01',
        'openai-beta': '***',
        'x-api-key': '***',
      },
    });
  });

  test('shows a URL without values of the query, name and password, and what looks like a key', () => {
    const path =
      '/a/sk-0123456789abcdef/b%20c/s%6b-0123456789abcdef?key=k&alt=sse&api-version=2024-10-21&x&alt=k';
    assert.equal(
      told({ origin: 'https://me:secret@host.example', path }).url,
      'https://host.example/a/***/b%20c/***?key=***&alt=sse&api-version=2024-10-21&***&alt=***',
    );
    assert.equal(told({ path: `/${'a/'.repeat(9000)}` }).url.length, 2049);
    assert.equal(told({ origin: 'mock:' }).url, 'mock:/v1/messages');
  });

  test('shows of its answer the status, and headers by their names', () => {
    const call = new ProviderCall(plain, undefined);
    const headers = [
      'Content-Type',
      'application/json',
      'Set-Cookie',
      'a=b',
      'request-id',
      'req_1',
      'x-own',
      'c',
    ];
    call.answered(529, headers, callBody(Buffer.from('{}'), 10));
    assert.deepEqual(parsed(call.told(shownHeaders, { ...options, clientHeaders: [] }).answer ?? ''), {
      status: 529,
      headers: {
        'content-type': 'application/json',
        'set-cookie': '***',
        'request-id': 'req_1',
        'x-own': '***',
      },
    });
  });

  test('keeps of a body no more than its bound, and nothing behind it', () => {
    const long = Buffer.alloc(1_000_000, 97);
    const { bytes, truncated } = callBody(long, 1000);
    assert.deepEqual([bytes.length, truncated, bytes.buffer === long.buffer], [1000, true, false]);
    const short = Buffer.from('short');
    assert.equal(callBody(short, 1000).bytes.buffer, short.buffer, 'no copy');
  });
});

describe('property: of a call, no secret is told', () => {
  const start = fc.constantFrom('sk-', 'sk-proj-', 'ghp_', 'AKIA', 'AIza', 'eyJ', 'wk_');
  const random = fc.stringMatching(/^[A-Za-z0-9]{20,60}$/);
  const likely = fc.tuple(start, random).map((parts) => parts.join(''));
  /** What looks like nothing, too: only where it stands tells that it is one. */
  const any = fc.oneof(likely, random, fc.stringMatching(/^[a-z]{8,30}$/));
  const name = fc.oneof(
    fc.constantFrom(
      ...[...credentialHeaders, 'cookie', 'user-agent', 'accept', 'content-type', 'host', 'openai-beta'],
      ...[
        'anthropic-version',
        'accept-encoding',
        'x-stainless-lang',
        'x-service-api-key',
        'x-amz-security-token',
      ],
    ),
    fc.stringMatching(/^[A-Za-z][A-Za-z-]{0,30}$/),
  );
  const headers = fc.array(fc.tuple(name, any), { maxLength: 20 });

  test('of the target’s: in its headers, its query, in front of its host', () => {
    fc.assert(
      fc.property(headers, fc.array(fc.tuple(name, any)), any, likely, (pairs, query, password, segment) => {
        const shown = new ProviderCall(
          {
            origin: `https://${password}:${password}@host.example`,
            method: 'POST',
            headers: pairs.flat(),
            path: `/${segment}/v1?${query.map((pair) => pair.join('=')).join('&')}`,
          },
          undefined,
        );
        const text = JSON.stringify(shown.told(shownHeaders, { ...options, clientHeaders: [] }));
        const values = [...pairs, ...query].map(([, value]) => value);
        for (const secret of [...values, password, segment])
          assert.ok(
            !text.toLowerCase().includes(secret.toLowerCase()) || isName(secret, [...pairs, ...query]),
            secret,
          );
        for (const seen of [inspect(shown, { depth: 9, showHidden: true }), JSON.stringify(shown)])
          for (const secret of values) assert.ok(!seen.includes(secret) || isName(secret, []), secret);
      }),
    );
  });

  test('of the request’s: in the headers that go along', () => {
    const sent = fc.array(fc.tuple(name, likely), { maxLength: 20 });
    fc.assert(
      fc.property(sent, (pairs) => {
        const text = JSON.stringify(told({ headers: pairs.flat() }, pairs.flat()));
        for (const [, secret] of pairs) assert.ok(!text.includes(secret), secret);
      }),
    );
  });

  test('of the answer’s', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(name, likely), { maxLength: 20 }), (pairs) => {
        const call = new ProviderCall(plain, undefined);
        call.answered(200, pairs.flat(), callBody(Buffer.alloc(0), 1));
        const text = JSON.stringify(call.told(shownHeaders, { ...options, clientHeaders: [] }));
        for (const [, secret] of pairs) assert.ok(!text.includes(secret), secret);
      }),
    );
  });

  /** A short text may stand in the name of a header, or in what is always said. */
  function isName(text: string, pairs: readonly (readonly [string, string])[]): boolean {
    const said = [...pairs.map(([header]) => header), 'request', 'method', 'headers', 'hostexample'];
    return said.some((word) => word.toLowerCase().includes(text.toLowerCase()));
  }
});
