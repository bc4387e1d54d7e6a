import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type RedisAddress, redisAddresses } from './redis-address.ts';

const local: RedisAddress = {
  kind: 'server',
  label: 'redis://127.0.0.1:6379/0',
  servers: [{ host: '127.0.0.1', port: 6379 }],
  database: 0,
  tls: false,
  username: undefined,
  password: undefined,
};
const three = [
  { host: 'a', port: 6379 },
  { host: 'b.example', port: 7000 },
  { host: '::1', port: 6379 },
] as const;
const watchers = [
  { host: 's1', port: 26_379 },
  { host: 's2', port: 5000 },
] as const;
const open = { username: undefined, password: undefined, tls: false };

describe('the address of a Redis server', () => {
  const cases: [string, Partial<RedisAddress>][] = [
    ['redis://127.0.0.1', {}],
    ['redis://127.0.0.1/', {}],
    [
      'redis://127.0.0.1:6380/7',
      { label: 'redis://127.0.0.1:6380/7', servers: [{ host: '127.0.0.1', port: 6380 }], database: 7 },
    ],
    ['redis://:s3cret@127.0.0.1', { password: 's3cret' }],
    ['redis://weir:a%40b%3A%2F%3F%23%25@127.0.0.1', { username: 'weir', password: 'a@b:/?#%' }],
    [
      'rediss://cache.example:1',
      { label: 'rediss://cache.example:1/0', servers: [{ host: 'cache.example', port: 1 }], tls: true },
    ],
    ['redis://[::1]:6379', { label: 'redis://[::1]:6379/0', servers: [{ host: '::1', port: 6379 }] }],
    [
      'redis+cluster://weir:a%40b@a,b.example:7000,[::1]:6379',
      {
        kind: 'cluster',
        label: 'redis+cluster://a:6379,b.example:7000,::1:6379',
        servers: three,
        username: 'weir',
        password: 'a@b',
      },
    ],
    [
      'rediss+cluster://a/0',
      { kind: 'cluster', label: 'rediss+cluster://a:6379', servers: [{ host: 'a', port: 6379 }], tls: true },
    ],
    [
      'redis+sentinel://:s3cret@s1,s2:5000/main',
      {
        kind: 'sentinel',
        label: 'redis+sentinel://s1:26379,s2:5000/main/0',
        servers: watchers,
        password: 's3cret',
        sentinel: { ...open, primary: 'main' },
      },
    ],
    [
      'rediss+sentinel://s1,s2:5000/main/2?sentinel_username=w&sentinel_password=s%263&sentinel_tls=false',
      {
        kind: 'sentinel',
        label: 'rediss+sentinel://s1:26379,s2:5000/main/2',
        servers: watchers,
        database: 2,
        tls: true,
        sentinel: { username: 'w', password: 's&3', tls: false, primary: 'main' },
      },
    ],
  ];
  for (const [url, expected] of cases)
    test(url, () => assert.deepEqual(redisAddresses.parse(url), { ...local, ...expected }));

  for (const [url, reason] of [
    ['redis://weir:s3cret@', 'no address'],
    ['redis://weir:s3cret@host/name', 'is a number'],
    ['redis://weir:s3cret@host/1?family=6', 'nothing may follow'],
    ['redis://weir:s3cret#@host', 'no address'],
    ['redis://weir:s3cret%@host', 'must be written as %25'],
    ['redis://weir:s3cret@a:6379,b:6379', 'no address'],
    ['http://weir:s3cret@host', 'no address'],
    ['s3cret', 'no address'],
    ['redis+cluster://weir:s3cret@a:6379,b:6379/1', 'only the database 0'],
    ['redis+cluster://weir:s3cret@a:6379,weir:s3cret@b:6379', 'must be HOST'],
    ['redis+cluster://weir:s3cret@a:6379,,b', 'must be HOST'],
    ['redis+cluster://weir:s3cret@a:66379', 'must be HOST'],
    ['redis+cluster://weir:s3cret@', 'must be HOST'],
    ['redis+sentinel://weir:s3cret@a:26379', 'name of the primary is missing'],
    ['redis+sentinel://weir:s3cret@a:26379/', 'name of the primary is missing'],
    ['redis+sentinel://weir:s3cret@a:26379/0', 'name of the primary is missing'],
    ['redis+sentinel://weir:s3cret@a:26379/main?password=s3cret', 'sentinel_password and sentinel_tls'],
    ['redis+sentinel://weir:s3cret@a:26379/main?sentinel_tls=yes', 'true or false'],
    ['redis+ring://weir:s3cret@a', 'no address'],
  ] as const) {
    test(`${url} is refused without repeating the password`, () => {
      assert.throws(
        () => redisAddresses.parse(url),
        (error: Error) =>
          error.message.includes(reason) &&
          /cannot be used: .*Write redis:/.test(error.message) &&
          !error.message.includes('s3cret'),
      );
    });
  }
});
