import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { postgresPlace } from './postgres-address.ts';

const base = { host: 'db.example', port: 5432, user: 'weir', database: 'weir', ssl: false };
const read: readonly (readonly [string, string | undefined, string, object])[] = [
  ['postgres://weir@db.example', undefined, 'db.example:5432/weir', base],
  ['postgresql://weir@db.example/', undefined, 'db.example:5432/weir', base],
  [
    'postgres://a%40b:p%2Fw%3F@[::1]:6543/my%20data',
    undefined,
    '[::1]:6543/my%20data',
    { host: '::1', port: 6543, user: 'a@b', database: 'my data', ssl: false, password: 'p/w?' },
  ],
  ['postgres://weir@db.example/weir', 'p/w?#%', 'db.example:5432/weir', { ...base, password: 'p/w?#%' }],
  [
    'postgres://weir@db.example/weir?sslmode=require',
    undefined,
    'db.example:5432/weir',
    { ...base, ssl: { rejectUnauthorized: false } },
  ],
  [
    'postgres://weir@db.example/weir?sslmode=verify-full',
    undefined,
    'db.example:5432/weir',
    { ...base, ssl: { rejectUnauthorized: true } },
  ],
];
for (const [url, password, label, connection] of read) {
  test(`an address is read: ${url}`, async () => {
    const place = await postgresPlace({ url, ...(password !== undefined && { password }) }, '/');
    assert.deepEqual(place.connection, connection);
    assert.equal(place.label, decodeURIComponent(label));
  });
}

const refused: readonly (readonly [string, RegExp, string?])[] = [
  ['postgres://weir:secret@', /it is no address/],
  ['mysql://weir:secret@db.example/weir', /it is no address/],
  ['postgres://weir:sec/ret@db.example/weir', /it is no address/],
  ['postgres://db.example/weir', /it names no user/],
  ['postgres://weir:secret@db.example/a/b', /only the database follows the port/],
  ['postgres://weir:secret@db.example/weir?sslmode=prefer', /sslmode is disable, require or verify-full/],
  ['postgres://weir:secret@db.example/weir?options=-c', /only sslmode may follow the database/],
  ['postgres://weir:secret@db.example/weir#x', /only sslmode may follow the database/],
  ['postgres://weir:sec%ret@db.example/weir', /a "%" in it must be written as %25/],
  ['postgres://weir:secret@db.example/weir', /keep one/, 'secret'],
];
for (const [url, expected, password] of refused) {
  test(`an address is refused without being repeated: ${url}`, async () => {
    await assert.rejects(
      postgresPlace({ url, ...(password !== undefined && { password }) }, '/'),
      (error: Error) => {
        assert.match(error.message, expected);
        assert.match(error.message, /storage\.resources\.url/);
        assert.doesNotMatch(error.message, /sec\/?%?ret/);
        return true;
      },
    );
  });
}

test('an authority of one’s own is read from a file beside the configuration, for verified TLS only', async (t) => {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'weir-test-'));
  t.after(() => rm(folder, { recursive: true }));
  await writeFile(path.join(folder, 'ca.pem'), 'a certificate');
  const url = 'postgres://weir@db.example/weir';
  const place = await postgresPlace({ url: `${url}?sslmode=verify-full`, ca_file: 'ca.pem' }, folder);
  assert.deepEqual(place.connection.ssl, { rejectUnauthorized: true, ca: 'a certificate' });
  await assert.rejects(
    postgresPlace({ url: `${url}?sslmode=verify-full`, ca_file: 'none.pem' }, folder),
    /storage\.resources\.ca_file cannot be read \(ENOENT\): .*none\.pem/,
  );
  for (const mode of ['', '?sslmode=require'])
    await assert.rejects(
      postgresPlace({ url: `${url}${mode}`, ca_file: 'ca.pem' }, folder),
      /needs \?sslmode=verify-full/,
    );
});
