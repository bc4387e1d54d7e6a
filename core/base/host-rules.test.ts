import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { hostRefusalReason, TrustedHosts } from './host-rules.ts';

describe('refusedHost', () => {
  const refused = [
    ...[
      'localhost',
      'LocalHost',
      'localhost.',
      'a.localhost',
      'localhost.localdomain',
      'redis',
      'printer.local',
    ],
    ...['metadata', 'metadata.google.internal', 'metadata.google.internal.', 'metadata.goog', 'x.intranet'],
    ...['router.lan', 'db.corp', 'nas.home', 'nas.home.arpa', '1.0.0.127.in-addr.arpa', 'api.default.svc'],
    ...['x.svc.cluster', 'host.docker.internal', 'a.test', 'a.example', 'a.invalid', 'a.onion', '', '.'],
    ...['127.0.0.1', '10.1.2.3', '[::1]', '[fd00:ec2::254]', '[::ffff:808:808]'],
  ];
  for (const host of refused) {
    test(`refuses ${host}`, () => assert.match(hostRefusalReason(host) ?? '', /^it/));
  }
  const tried = [
    'example.com',
    'api.openai.com',
    'example.com.',
    'xn--mnchen-3ya.de',
    'local.dev',
    '8.8.8.8',
  ];
  for (const host of [...tried, '[2606:4700::1111]', 'localhost.example.com', 'internal.io']) {
    test(`tries ${host}`, () => assert.equal(hostRefusalReason(host), undefined));
  }
});

describe('TrustedHosts', () => {
  const cases: readonly [string, string, boolean][] = [
    ['images.internal', 'http://images.internal/a.png', true],
    ['images.internal', 'https://IMAGES.internal:8443/', true],
    ['Images.Internal', 'http://images.internal', true],
    ['images.internal', 'http://other.images.internal', false],
    ['images.internal', 'http://images.internal.evil.com', false],
    ['images.internal', 'http://images.internal.', false],
    ['10.0.0.7:8080', 'http://10.0.0.7:8080', true],
    ['10.0.0.7:8080', 'http://10.0.0.7:8081', false],
    ['10.0.0.7:80', 'http://10.0.0.7/', true],
    ['10.0.0.7:80', 'https://10.0.0.7/', false],
    ['10.0.0.7:443', 'https://10.0.0.7/', true],
    ['127.0.0.1', 'http://0x7f.1:9000/', true],
    ['::1', 'http://[::1]:9000/', true],
    ['[::1]', 'http://[0:0:0:0:0:0:0:1]/', true],
    ['[::1]:9000', 'http://[::1]:9000/', true],
    ['[::1]:9000', 'http://[::1]:9001/', false],
    ['0:0:0:0:0:0:0:1', 'http://[::1]/', true],
    ['', 'http://example.com', false],
    ['*', 'http://example.com', false],
    ['a b', 'http://example.com', false],
  ];
  for (const [entry, url, expected] of cases) {
    test(`"${entry}" ${expected ? 'trusts' : 'does not trust'} ${url}`, () =>
      assert.equal(new TrustedHosts([entry]).has(new URL(url)), expected));
  }
});
