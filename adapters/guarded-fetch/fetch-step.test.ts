import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { TrustedHosts } from '../../core/base/host-rules.ts';
import { admitUrl, type FetchStep, followRedirect, redirectOf, wireHeaders } from './guarded-fetch.ts';

const trusted = new TrustedHosts(['images.internal']);
const step = (url: string): FetchStep => ({
  ...admitUrl(url, trusted),
  method: 'GET',
  headers: ['Authorization', 'Bearer s', 'x-a', '1'],
  body: null,
});

describe('following a redirect', () => {
  test('never from https to http, not even to a trusted host or within one', () => {
    for (const location of ['http://example.com/', 'http://images.internal/', 'http://other.example.com/']) {
      assert.throws(() => followRedirect(step('https://example.com/a'), 302, location, trusted), {
        code: 'fetch_failed',
        message: /from https to http/,
      });
    }
  });

  const cases: readonly [string, string, string, string[]][] = [
    ['http://example.com/a/b?c', 'd', 'http://example.com/a/d', ['Authorization', 'Bearer s', 'x-a', '1']],
    ['http://example.com/', 'https://example.com/', 'https://example.com/', ['x-a', '1']],
    ['https://example.com/', '//example.org/x', 'https://example.org/x', ['x-a', '1']],
    ['https://example.com/', 'https://example.com:8443/', 'https://example.com:8443/', ['x-a', '1']],
    ['https://example.com/a', '?b#c', 'https://example.com/a?b', ['Authorization', 'Bearer s', 'x-a', '1']],
  ];
  for (const [from, location, to, headers] of cases) {
    test(`from ${from} to ${location}`, () => {
      const next = followRedirect(step(from), 302, location, trusted);
      assert.deepEqual([next.url.href, next.trusted, next.headers], [to, false, headers]);
    });
  }

  test('each is judged anew: trusted or not, public or refused', () => {
    const from = step('http://images.internal/');
    assert.equal(from.trusted, true);
    assert.equal(followRedirect(from, 302, 'http://example.com/', trusted).trusted, false);
    assert.equal(
      followRedirect(step('http://example.com/'), 302, 'http://images.internal/', trusted).trusted,
      true,
    );
    assert.throws(() => followRedirect(from, 302, 'http://other.internal/', trusted), {
      code: 'address_refused',
    });
  });
});

test('redirectOf: only the statuses that redirect, and only with a location', () => {
  const headers = ['Location', '/x'];
  for (const status of [301, 302, 303, 307, 308]) assert.equal(redirectOf(status, headers), '/x');
  for (const status of [200, 201, 300, 304, 305, 306, 404])
    assert.equal(redirectOf(status, headers), undefined);
  assert.equal(redirectOf(302, []), undefined);
});

test('wireHeaders: what the fetch sets itself is left out, and plain bytes are asked for', () => {
  const sent = [
    'Host',
    'x',
    'Accept-Encoding',
    'gzip',
    'Transfer-Encoding',
    'chunked',
    'Content-Length',
    '9',
    'a',
    'b',
  ];
  assert.deepEqual(wireHeaders(sent), ['a', 'b', 'accept-encoding', 'identity']);
});
