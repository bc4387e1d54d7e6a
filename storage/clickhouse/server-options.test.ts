import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { AnalyticsServerSettings } from '../../core/ports/analytics.ts';
import { serverOptions } from './open-server.ts';

const base: AnalyticsServerSettings = {
  url: 'https://h:8443',
  replicated: false,
  replica_path: '/p',
  replica_name: 'r',
  sharded: false,
  insert_quorum_parallel: true,
};
let folder = '';
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'weir-test-'));
  await writeFile(join(folder, 'ca.pem'), '-----BEGIN CERTIFICATE-----\n');
  await writeFile(join(folder, 'key.pem'), '-----BEGIN PRIVATE KEY-----\n');
});
after(() => rm(folder, { recursive: true }));

test('without more than an address: the user default, no password, the database weir, one server', async () => {
  assert.deepEqual(await serverOptions(base, folder), {
    url: 'https://h:8443',
    username: 'default',
    password: '',
    database: 'weir',
    certificateAuthority: undefined,
    layout: { cluster: undefined, replica: undefined, sharded: false, quorum: undefined },
  });
});

test('everything that can be set arrives', async () => {
  const settings = {
    ...base,
    url: 'https://h:8443/logs',
    username: 'u',
    password: 'p',
    ca_file: 'ca.pem',
    cluster: 'c',
    replicated: true,
    sharded: true,
    insert_quorum: 'auto',
    insert_quorum_parallel: false,
  } as const;
  assert.deepEqual(await serverOptions(settings, folder), {
    url: 'https://h:8443',
    username: 'u',
    password: 'p',
    database: 'logs',
    certificateAuthority: Buffer.from('-----BEGIN CERTIFICATE-----\n'),
    layout: {
      cluster: 'c',
      replica: { path: '/p', name: 'r' },
      sharded: true,
      quorum: { replicas: 'auto', parallel: false },
    },
  });
});

const refused: [what: string, settings: Partial<AnalyticsServerSettings>, message: RegExp][] = [
  [
    'credentials in the address',
    { url: 'https://u:SECRET@h:1' },
    /put them into storage\.analytics\.username/,
  ],
  ['no address', { url: 'https://h:port' }, /no URL/],
  ['an authority without TLS', { url: 'http://h:1', ca_file: 'ca.pem' }, /needs a url .* https/],
  ['an authority that is not there', { ca_file: 'none.pem' }, /cannot be read: ENOENT/],
  ['shards of no cluster', { sharded: true }, /sharded needs storage\.analytics\.cluster/],
  [
    'a quorum without replicas',
    { insert_quorum: 2 },
    /insert_quorum needs storage\.analytics\.replicated: true/,
  ],
  [
    'inserts that wait for each other without a quorum',
    { replicated: true, insert_quorum_parallel: false },
    /insert_quorum_parallel: false needs storage\.analytics\.insert_quorum/,
  ],
  ['an authority that is no certificate', { ca_file: 'key.pem' }, /no certificate in PEM.*key\.pem/],
];
for (const [what, settings, message] of refused) {
  test(`refused: ${what}`, () =>
    assert.rejects(serverOptions({ ...base, ...settings }, folder), (error: Error) => {
      assert.match(error.message, message);
      assert.doesNotMatch(error.message, /SECRET/);
      return true;
    }));
}
