import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ClickHouseError } from '@clickhouse/client';
import { migration, SchemaChanged } from './migrate.ts';
import { analyticsErrors, type OpeningStep } from './store-errors.ts';

const place = { url: 'https://ch:8443', username: 'gate', database: 'db', cluster: 'c1' };
const server = (code: string, message = 'TEXT'): ClickHouseError =>
  new ClickHouseError({ code, type: 'SOME_NAME', message });
const network = (code: string): Error => Object.assign(new Error('SECRET'), { code });

const cases: [what: string, error: unknown, step: OpeningStep, lasting: boolean, message: RegExp][] = [
  [
    'a wrong password',
    server('516'),
    'connect',
    true,
    /refuses the user or the password.*username \("gate"\)/,
  ],
  ['an unknown user', server('192'), 'connect', true, /refuses the user/],
  [
    'no right to create the database',
    server('497'),
    'database',
    true,
    /may not create it.*CREATE DATABASE db.*TO gate/,
  ],
  [
    'no right to create tables',
    server('497'),
    'schema',
    true,
    /GRANT SELECT, INSERT.*db\.\* TO gate, and GRANT CLUSTER/,
  ],
  ['a read-only user', server('164'), 'schema', true, /readonly = 0/],
  ['an unknown cluster', server('701'), 'schema', true, /no such cluster.*cluster is "c1"; SHOW CLUSTERS/],
  ['no Keeper', server('225'), 'schema', true, /Keeper/],
  ['a missing macro', server('139', "No macro 'shard'"), 'schema', true, /replica_path.*No macro 'shard'/],
  ['an unknown setting', server('115', 'no such\n thing'), 'schema', true, /setting.*no such thing/],
  ['a full disk', server('243'), 'schema', false, /answered with error 243 SOME_NAME.*TEXT/],
  ['an error before the schema', server('999'), 'connect', false, /own log/],
  ['a refused connection', network('ECONNREFUSED'), 'connect', false, /failed \(ECONNREFUSED\).*ch:8443/],
  ['an unknown host', network('ENOTFOUND'), 'connect', false, /failed \(ENOTFOUND\)/],
  ['no answer', new Error('Timeout error.'), 'connect', false, /did not answer in time/],
  ['an unknown authority', network('SELF_SIGNED_CERT_IN_CHAIN'), 'connect', true, /certificate.*ca_file/],
  [
    'another host’s certificate',
    network('ERR_TLS_CERT_ALTNAME_INVALID'),
    'connect',
    true,
    /certificate.*host/,
  ],
  ['a port without TLS', network('EPROTO'), 'connect', true, /TLS failed.*8443.*http:\/\//],
  ['another protocol', new Error('Port 9000 is for SECRET'), 'connect', false, /HTTP interface.*9000/],
];
for (const [what, error, step, lasting, message] of cases) {
  test(`start: ${what}`, () => {
    const found = analyticsErrors.explainStart(error, step, place);
    assert.match(found.message, message);
    assert.match(found.message, /^The analytics store at https:\/\/ch:8443 cannot be used: /);
    assert.equal(found.lasting, lasting);
    assert.doesNotMatch(found.message, /SECRET/);
    assert.doesNotMatch(found.reason, /ch:8443|gate/, 'the reason stands on an open page');
    assert.equal(analyticsErrors.explainStart(found, step, place), found);
  });
}

test('start: a changed migration is named', () => {
  const step = migration(1, '0001-a.sql', 'SELECT 1');
  const found = analyticsErrors.explainStart(
    new SchemaChanged(step, { version: 1, name: 'old', checksum: 'x' }),
    'schema',
    place,
  );
  assert.match(found.message, /0001-a\.sql was applied/);
  assert.equal(found.lasting, true);
});

for (const [version, isOld] of [
  ['18.16.1', true],
  ['24.7.99.1', true],
  ['24.8.1.1', false],
  ['24.10.1', false],
  ['26.7.2.1', false],
  ['head', false],
] as const) {
  test(`start: version ${version} is ${isOld ? 'refused, with the one that is needed' : 'taken'}`, () => {
    const check = (): void => analyticsErrors.checkVersion(version, place);
    if (isOld) assert.throws(check, /runs ClickHouse \d+\.\d+, and 24\.8 or newer is needed/);
    else check();
  });
}
