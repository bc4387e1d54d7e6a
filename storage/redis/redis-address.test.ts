import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseRedisUrl, type RedisAddress } from './redis-connection.ts';

const local = {
  label: 'redis://127.0.0.1:6379/0',
  host: '127.0.0.1',
  port: 6379,
  database: 0,
  tls: false,
  username: undefined,
  password: undefined,
};

describe('the address of a Redis server', () => {
  const cases: [string, Partial<RedisAddress>][] = [
    ['redis://127.0.0.1', {}],
    ['redis://127.0.0.1/', {}],
    ['redis://127.0.0.1:6380/7', { label: 'redis://127.0.0.1:6380/7', port: 6380, database: 7 }],
    ['redis://:s3cret@127.0.0.1', { password: 's3cret' }],
    ['redis://weir:a%40b%3A%2F%3F%23%25@127.0.0.1', { username: 'weir', password: 'a@b:/?#%' }],
    [
      'rediss://cache.example:1',
      { label: 'rediss://cache.example:1/0', host: 'cache.example', port: 1, tls: true },
    ],
    ['redis://[::1]:6379', { label: 'redis://[::1]:6379/0', host: '::1' }],
  ];
  for (const [url, expected] of cases)
    test(url, () => assert.deepEqual(parseRedisUrl(url), { ...local, ...expected }));

  for (const url of [
    'redis://weir:s3cret@',
    'redis://weir:s3cret@host/name',
    'redis://weir:s3cret@host/1?family=6',
    'redis://weir:s3cret#@host',
    'redis://weir:s3cret%@host',
    'http://weir:s3cret@host',
    's3cret',
  ]) {
    test(`${url} is refused without repeating the password`, () => {
      assert.throws(
        () => parseRedisUrl(url),
        (error: Error) =>
          /cannot be used: .*Write redis:/.test(error.message) && !error.message.includes('s3cret'),
      );
    });
  }
});
