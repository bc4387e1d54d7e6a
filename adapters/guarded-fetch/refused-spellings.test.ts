import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { failure, get, names, startCanary, testFetch, type Canary } from './guarded-fetch.test-support.ts';

/** `$` stands for the port at which the canary listens. */
const spellings: readonly string[] = [
  // IPv4 loopback
  ...['http://127.0.0.1:$/', 'https://127.0.0.1:$/', 'http://127.0.0.2:$/', 'http://127.255.255.254:$/'],
  ...[
    'http://127.1:$/',
    'http://127.0.1:$/',
    'http://2130706433:$/',
    'http://0x7f000001:$/',
    'http://0x7F.1:$/',
  ],
  ...['http://0177.0.0.1:$/', 'http://017700000001:$/', 'http://0x7f.0.0.0x1:$/', 'http://0177.0x0.0.1:$/'],
  ...['http://0x7f.0.1:$/', 'http://00000177.0.0.1:$/', 'http://0x0000007f.0.0.1:$/', 'http://127.0.0.1.:$/'],
  ...[
    'http://127.0.0.1%2e:$/',
    'http://%31%32%37.0.0.1:$/',
    'http://127%2E0%2E0%2E1:$/',
    'http:127.0.0.1:$/',
  ],
  ...['http:/127.0.0.1:$/', 'http:\\\\127.0.0.1:$/', 'http:///127.0.0.1:$/', ' http://127.0.0.1:$/'],
  ...[
    'http://127.0.\t0.1:$/',
    'ht\ntp://127.0.0.1:$/',
    'HTTP://127.0.0.1:$/',
    'http://127.0.0.1\\@example.com/',
  ],
  // Unicode digits, dots and letters
  ...['http://１２７.０.０.１:$/', 'http://127。0。0。1:$/', 'http://127．0．0．1:$/', 'http://127｡0｡0｡1:$/'],
  ...[
    'http://①②⑦.⓪.⓪.①:$/',
    'http://𝟏𝟐𝟕.𝟎.𝟎.𝟏:$/',
    'http://¹²⁷.⁰.⁰.¹:$/',
    'http://０x７f.1:$/',
    'http://1２７.1:$/',
  ],
  ...['http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ:$/', 'http://ｌｏｃａｌｈｏｓｔ:$/', 'http://localhoſt:$/', 'http://𝓁ocalhost:$/'],
  ...[
    'http://%E2%91%A0%E2%91%A1%E2%91%A6.0.0.1:$/',
    'http://local\u00ADhost:$/',
    'http://127.0.0.\u200B1:$/',
  ],
  // Names
  ...['http://localhost:$/', 'http://LOCALHOST:$/', 'http://localhost.:$/', 'http://a.localhost:$/'],
  ...[
    'http://a.b.localhost.:$/',
    'http://%6cocalhost:$/',
    'http://loc%61lhost:$/',
    'http://localhost.localdomain:$/',
  ],
  ...[
    'http://ip6-localhost:$/',
    'http://metadata:$/',
    'http://metadata.google.internal/',
    'http://METADATA.google.INTERNAL./',
  ],
  ...[
    'http://metadata.goog/',
    'http://instance-data.ec2.internal/',
    'http://kubernetes.default.svc/',
    'http://printer.local/',
  ],
  ...['http://host.docker.internal:$/', 'http://router.lan/', 'http://nas.home.arpa/', 'http://redis:$/'],
  // Other IPv4
  ...[
    'http://0.0.0.0:$/',
    'http://0:$/',
    'http://0x0:$/',
    'http://00.0:$/',
    'http://10.0.0.1/',
    'http://172.16.0.1/',
  ],
  ...['http://172.31.255.255/', 'http://192.168.1.1/', 'http://3232235777/', 'http://0xc0.0xa8.0x1.0x1/'],
  ...[
    'http://169.254.169.254/latest/meta-data/',
    'http://2852039166/',
    'http://0xa9fea9fe/',
    'http://0251.0376.0251.0376/',
  ],
  ...[
    'http://169.254.43518/',
    'http://169.16689662/',
    'http://169.254.170.2/',
    'http://100.64.0.1/',
    'http://100.100.100.200/',
  ],
  ...[
    'http://168.63.129.16/',
    'http://192.0.0.192/',
    'http://192.0.2.1/',
    'http://198.18.0.1/',
    'http://198.51.100.1/',
  ],
  ...[
    'http://203.0.113.1/',
    'http://192.88.99.1/',
    'http://224.0.0.1/',
    'http://240.0.0.1/',
    'http://255.255.255.255/',
  ],
  ...['http://①⑥⑨.②⑤④.①⑥⑨.②⑤④/', 'http://0300.0250.1.1/', 'http://0x0a.1/'],
  // IPv6
  ...[
    'http://[::1]:$/',
    'http://[0:0:0:0:0:0:0:1]:$/',
    'http://[0000::0001]:$/',
    'http://[::]:$/',
    'http://[::0.0.0.1]:$/',
  ],
  ...['http://[::ffff:127.0.0.1]:$/', 'http://[::FFFF:7F00:1]:$/', 'http://[0:0:0:0:0:ffff:7f00:0001]:$/'],
  ...[
    'http://[::127.0.0.1]:$/',
    'http://[::7f00:1]:$/',
    'http://[::ffff:0:127.0.0.1]:$/',
    'http://[::ffff:169.254.169.254]/',
  ],
  ...[
    'http://[64:ff9b::127.0.0.1]:$/',
    'http://[64:ff9b::7f00:1]/',
    'http://[64:ff9b:1::1]/',
    'http://[2002:7f00:1::]/',
  ],
  ...[
    'http://[2002:a9fe:a9fe::1]/',
    'http://[2001::1]/',
    'http://[2001:0:7f00:1::]/',
    'http://[2001:db8::1]/',
  ],
  ...[
    'http://[2001:2::1]/',
    'http://[2001:10::1]/',
    'http://[3fff::1]/',
    'http://[100::1]/',
    'http://[fc00::1]/',
  ],
  ...[
    'http://[fd00:ec2::254]/',
    'http://[fd20:ce::254]/',
    'http://[fe80::1]/',
    'http://[fe80::1%25lo]:$/',
    'http://[::1%25lo]:$/',
  ],
  ...[
    'http://[::1%lo]:$/',
    'http://[fec0::1]/',
    'http://[ff02::1]/',
    'http://[ff0e::1]/',
    'http://[5f00::1]/',
  ],
  ...[
    'http://[2001:470::5efe:7f00:1]/',
    'http://[::１]:$/',
    'http://[%3a%3a1]:$/',
    'http://::1:$/',
    'http://[::1].:$/',
  ],
  // No URL that is fetched at all
  ...[
    'file:///etc/passwd',
    'ftp://example.com/',
    'gopher://127.0.0.1:$/',
    'data:image/png;base64,AA==',
    'ws://example.com/',
  ],
  ...[
    'javascript:1',
    'blob:http://127.0.0.1:$/x',
    'unix:/run/docker.sock',
    '//127.0.0.1:$/',
    '/etc/passwd',
    '',
    'http://',
  ],
  ...[
    'http://user:pass@example.com/',
    'http://user@example.com/',
    'http://:pass@example.com/',
    'http://example.com:99999/',
  ],
  ...[
    'http://example.com@127.0.0.1:$/',
    'http://127.0.0.1:$@localhost/',
    'http://exa mple.com/',
    'http://256.256.256.256/',
  ],
  `http://example.com/${'a'.repeat(8192)}`,
];

/** Names that are public themselves and lead inside: all answers are looked at. */
const resolved: Readonly<Record<string, readonly string[]>> = {
  'loopback.example.com': ['127.0.0.1'],
  '127.0.0.1.nip.io': ['127.0.0.1'],
  'loopback6.example.com': ['::1'],
  'mixed.example.com': ['2d00::1', '127.0.0.1'],
  'mixed-first.example.com': ['10.0.0.1', '2d00::1'],
  'mapped.example.com': ['::ffff:127.0.0.1'],
  'nat64.example.com': ['64:ff9b::7f00:1'],
  'metadata.example.com': ['169.254.169.254'],
  'metadata6.example.com': ['fd00:ec2::254'],
  'private.example.com': ['192.168.0.10'],
  'zero.example.com': ['0.0.0.0'],
  'zone.example.com': ['fe80::1%lo'],
  'odd.example.com': ['0x7f.1'],
};

describe('guarded fetch refuses what is not public', () => {
  let canary: Canary;
  before(async () => {
    canary = await startCanary();
  });
  after(() => {
    canary.close();
    assert.equal(canary.connections, 0, 'the canary on loopback was called');
  });

  test('the table is long, and its canary listens', async () => {
    assert.ok(new Set(spellings).size >= 80, `${spellings.length} spellings`);
    const other = await startCanary();
    await failure(get(testFetch({ trustedHosts: ['127.0.0.1'] }), `http://127.0.0.1:${other.port}/`));
    assert.equal(other.connections, 1);
    other.close();
  });

  for (const spelling of spellings) {
    const shown = spelling.length > 60 ? `${spelling.slice(0, 40)}… (${spelling.length})` : spelling;
    test(JSON.stringify(shown), async () => {
      const resolve = names({});
      const error = await failure(get(testFetch({ resolve }), spelling.replace('$', String(canary.port))));
      assert.deepEqual([error.code, error.status], ['address_refused', 400], error.message);
      assert.doesNotMatch(error.message, /pass/);
      assert.deepEqual(resolve.asked, []);
      assert.equal(canary.connections, 0);
    });
  }

  for (const [name, addresses] of Object.entries(resolved)) {
    for (const scheme of ['http', 'https']) {
      test(`${scheme}://${name} → ${addresses.join(', ')}`, async () => {
        const error = await failure(
          get(testFetch({ resolve: names(resolved) }), `${scheme}://${name}:${canary.port}/`),
        );
        assert.equal(error.code, 'address_refused', error.message);
        assert.match(error.message, new RegExp(`"${name}".*security\\.trusted_hosts`));
        // What a name leads to inside is nobody's business.
        for (const address of addresses)
          assert.ok(name.includes(address) || !error.message.includes(address));
        assert.equal(canary.connections, 0);
      });
    }
  }
});
