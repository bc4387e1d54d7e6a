import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { addressRangePattern } from '../config/security-schema.ts';
import { ClientAddresses } from './client-address.ts';

const forwardedFor = (...values: string[]): string[] => values.flatMap((value) => ['X-Forwarded-For', value]);
const forwarded = (...values: string[]): string[] => values.flatMap((value) => ['Forwarded', value]);
const hops = (count: number): string => Array<string>(count).fill('10.0.0.9').join(', ');

type Row = readonly [name: string, trusted: string[], peer: string, headers: string[], expected: string];

const ten = ['10.0.0.0/8'];
const rows: readonly Row[] = [
  // Whose word counts
  ['nobody is trusted', [], '10.0.0.1', forwardedFor('203.0.113.7'), '10.0.0.1'],
  ['the peer is not trusted', ten, '203.0.113.1', forwardedFor('203.0.113.7'), '203.0.113.1'],
  ['the peer is trusted', ten, '10.0.0.1', forwardedFor('203.0.113.7'), '203.0.113.7'],
  ['an address alone', ['10.0.0.1'], '10.0.0.1', forwardedFor('203.0.113.7'), '203.0.113.7'],
  ['its neighbour', ['10.0.0.1'], '10.0.0.2', forwardedFor('203.0.113.7'), '10.0.0.2'],
  ['just outside of a range', ['10.0.0.0/31'], '10.0.0.2', forwardedFor('203.0.113.7'), '10.0.0.2'],
  ['a range with host bits', ['10.1.2.3/8'], '10.9.9.9', forwardedFor('203.0.113.7'), '203.0.113.7'],
  ['loopback', ['loopback'], '127.0.0.9', forwardedFor('203.0.113.7'), '203.0.113.7'],
  ['loopback of IPv6', ['loopback'], '::1', forwardedFor('203.0.113.7'), '203.0.113.7'],
  ['loopback is not private', ['private'], '127.0.0.1', forwardedFor('203.0.113.7'), '127.0.0.1'],
  ['private: 172.16/12', ['private'], '172.31.255.1', forwardedFor('203.0.113.7'), '203.0.113.7'],
  ['private: beyond it', ['private'], '172.32.0.1', forwardedFor('203.0.113.7'), '172.32.0.1'],
  ['private: 192.168/16', ['private'], '192.168.3.4', forwardedFor('203.0.113.7'), '203.0.113.7'],
  ['private: fc00::/7', ['private'], 'fd12::1', forwardedFor('203.0.113.7'), '203.0.113.7'],
  ['everybody of IPv4', ['0.0.0.0/0'], '203.0.113.1', forwardedFor('203.0.113.7'), '203.0.113.7'],
  ['a range of IPv6', ['2001:db8::/32'], '2001:db8::5', forwardedFor('203.0.113.7'), '203.0.113.7'],
  ['a peer with a zone', ['fe80::/10'], 'fe80::1%eth0', forwardedFor('203.0.113.7'), '203.0.113.7'],
  ['a connection that has closed', ['0.0.0.0/0', '::/0'], '', forwardedFor('203.0.113.7'), ''],
  // IPv4 within IPv6
  ['a mapped peer, not trusted', [], '::ffff:203.0.113.1', [], '203.0.113.1'],
  ['a mapped peer, trusted', ten, '::ffff:10.0.0.1', forwardedFor('203.0.113.7'), '203.0.113.7'],
  ['a mapped entry', ['::ffff:10.0.0.1'], '10.0.0.1', forwardedFor('203.0.113.7'), '203.0.113.7'],
  ['a mapped range', ['::ffff:10.0.0.0/104'], '10.7.7.7', forwardedFor('203.0.113.7'), '203.0.113.7'],
  ['a mapped client', ten, '10.0.0.1', forwardedFor('::ffff:203.0.113.7'), '203.0.113.7'],
  ['a mapped client in hex', ten, '10.0.0.1', forwardedFor('::ffff:cb00:7107'), '203.0.113.7'],
  ['a mapped proxy', ten, '10.0.0.1', forwardedFor('203.0.113.7, ::ffff:10.0.0.2'), '203.0.113.7'],
  // Chains
  ['a chain of proxies', ten, '10.0.0.1', forwardedFor('203.0.113.7, 10.0.0.3, 10.0.0.2'), '203.0.113.7'],
  ['a spoofed left part', ten, '10.0.0.1', forwardedFor('1.1.1.1, 203.0.113.7, 10.0.0.2'), '203.0.113.7'],
  ['a spoofed proxy on the left', ten, '10.0.0.1', forwardedFor('10.9.9.9, 203.0.113.7'), '203.0.113.7'],
  ['rubbish on the left', ten, '10.0.0.1', forwardedFor('"<a>;, 203.0.113.7'), '203.0.113.7'],
  ['all are trusted: the first', ten, '10.0.0.1', forwardedFor('10.0.0.4, 10.0.0.3'), '10.0.0.4'],
  [
    'several headers are one list',
    ten,
    '10.0.0.1',
    forwardedFor('1.1.1.1', '203.0.113.7', '10.0.0.2'),
    '203.0.113.7',
  ],
  ['spaces and empty elements', ten, '10.0.0.1', forwardedFor(' ,203.0.113.7 ,, 10.0.0.2 ,'), '203.0.113.7'],
  ['thirty-two hops', ten, '10.0.0.1', forwardedFor(`203.0.113.7, ${hops(31)}`), '203.0.113.7'],
  ['one hop more', ten, '10.0.0.1', forwardedFor(`203.0.113.7, ${hops(32)}`), '10.0.0.1'],
  // Spellings
  ['a port', ten, '10.0.0.1', forwardedFor('203.0.113.7:51000'), '203.0.113.7'],
  ['IPv6', ten, '10.0.0.1', forwardedFor('2001:DB8:0:0::7'), '2001:db8::7'],
  ['IPv6 in brackets', ten, '10.0.0.1', forwardedFor('[2001:db8::7]'), '2001:db8::7'],
  ['IPv6 with a port', ten, '10.0.0.1', forwardedFor('[2001:db8::7]:443'), '2001:db8::7'],
  ['quoted IPv6', ten, '10.0.0.1', forwardedFor('"[2001:db8::7]:443"'), '2001:db8::7'],
  ['any case of the name', ten, '10.0.0.1', ['x-forwarded-FOR', '203.0.113.7'], '203.0.113.7'],
  // Texts that are no address
  ['no header', ten, '10.0.0.1', ['accept', '*/*'], '10.0.0.1'],
  ['an empty header', ten, '10.0.0.1', forwardedFor(''), '10.0.0.1'],
  ['commas alone', ten, '10.0.0.1', forwardedFor(', ,'), '10.0.0.1'],
  ['a name', ten, '10.0.0.1', forwardedFor('client.example'), '10.0.0.1'],
  ['unknown', ten, '10.0.0.1', forwardedFor('203.0.113.7, unknown'), '10.0.0.1'],
  ['a number too large', ten, '10.0.0.1', forwardedFor('203.0.113.256'), '10.0.0.1'],
  ['a zone', ten, '10.0.0.1', forwardedFor('fe80::1%eth0'), '10.0.0.1'],
  ['an open bracket', ten, '10.0.0.1', forwardedFor('[2001:db8::7'), '10.0.0.1'],
  ['IPv4 in brackets', ten, '10.0.0.1', forwardedFor('[203.0.113.7]'), '10.0.0.1'],
  ['a port that is none', ten, '10.0.0.1', forwardedFor('203.0.113.7:http'), '10.0.0.1'],
  // Forwarded (RFC 7239)
  ['Forwarded', ten, '10.0.0.1', forwarded('for=203.0.113.7;proto=https;by=10.0.0.1'), '203.0.113.7'],
  [
    'Forwarded: in any case, last',
    ten,
    '10.0.0.1',
    forwarded('proto=https; FOR = "203.0.113.7:80"'),
    '203.0.113.7',
  ],
  ['Forwarded: quoted IPv6', ten, '10.0.0.1', forwarded('for="[2001:db8::7]:4711"'), '2001:db8::7'],
  [
    'Forwarded: a chain',
    ten,
    '10.0.0.1',
    forwarded('for=1.1.1.1, for=203.0.113.7', 'for=10.0.0.2'),
    '203.0.113.7',
  ],
  [
    'Forwarded: an open quote of the client',
    ten,
    '10.0.0.1',
    forwarded('for="1.1.1.1, for=203.0.113.7'),
    '203.0.113.7',
  ],
  ['Forwarded: hidden', ten, '10.0.0.1', forwarded('for=_hidden'), '10.0.0.1'],
  ['Forwarded: without for', ten, '10.0.0.1', forwarded('proto=https'), '10.0.0.1'],
  ['Forwarded: twice for', ten, '10.0.0.1', forwarded('for=1.1.1.1;for=203.0.113.7'), '10.0.0.1'],
  [
    'X-Forwarded-For goes first',
    ten,
    '10.0.0.1',
    [...forwarded('for=1.1.1.1'), ...forwardedFor('203.0.113.7')],
    '203.0.113.7',
  ],
];

describe('the address of a client', () => {
  for (const [name, trusted, peer, headers, expected] of rows) {
    test(name, () => assert.equal(new ClientAddresses(trusted).of(peer, headers), expected));
  }

  test('is never one that the client wrote before what a proxy appended', () => {
    const addresses = new ClientAddresses(ten);
    fc.assert(
      fc.property(fc.string(), (written) => {
        assert.equal(addresses.of('10.0.0.1', forwardedFor(`${written}, 203.0.113.7`)), '203.0.113.7');
        assert.equal(addresses.of('10.0.0.1', forwarded(`${written}, for=203.0.113.7`)), '203.0.113.7');
      }),
    );
  });

  test('is found, whatever the header says', () => {
    const addresses = new ClientAddresses(['loopback', ...ten]);
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(...'[]":;,=for%.0123456789abcdf ') }), (text) => {
        for (const headers of [forwardedFor(text), forwarded(text)])
          assert.match(addresses.of('10.0.0.1', headers), /^[0-9a-f:.]+$/);
      }),
    );
  });
});

describe('trusted proxies', () => {
  const pattern = new RegExp(addressRangePattern);
  const good = ['loopback', 'private', '10.0.0.1', '10.0.0.0/8', '0.0.0.0/0', '::/0', '::1', 'fd00::/8'];
  const more = ['1:2:3:4:5:6:7:8', '1::8', 'FE80::1', '::ffff:10.0.0.0/104', '2001:db8:1:2::/64', '1::/128'];
  for (const entry of [...good, ...more]) {
    test(`${entry} is one`, () => {
      assert.match(entry, pattern);
      assert.doesNotThrow(() => new ClientAddresses([entry]));
    });
  }
  const bad = [
    '',
    'localhost',
    '10.0.0',
    '10.0.0.256',
    '10.0.0.0/33',
    '10.0.0.0/',
    '10.0.0.0/-1',
    '10.0.0.0/08x',
  ];
  const worse = [
    '::/129',
    '1:::2',
    '1:2:3:4:5:6:7:8:9',
    'fe80::1%eth0',
    '10.0.0.0/8/8',
    '::ffff:10.0.0.0/95',
    '*',
  ];
  for (const entry of [...bad, ...worse]) {
    test(`"${entry}" is none`, () => {
      assert.throws(() => new ClientAddresses([entry]), /server\.trusted_proxies: .*Use one/);
      if (entry !== '::ffff:10.0.0.0/95') assert.doesNotMatch(entry, pattern);
    });
  }

  test('the pattern takes every IPv6 address', () => {
    fc.assert(
      fc.property(fc.ipV6(), (address) => {
        if (!address.includes('.')) assert.match(address, pattern);
      }),
    );
  });
});
