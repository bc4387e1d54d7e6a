import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { configOf, minimal, problemsOf } from './load-texts.test-support.ts';

const withUrl = (url: string, section = 'counters'): string =>
  `${minimal}storage: { ${section}: { url: '${url}' } }\n`;

describe('the address of a Redis store', () => {
  for (const url of [
    'memory:',
    'redis://weir:secret@redis.internal:6379/3',
    'redis://weir:se,cret@redis.internal',
    'rediss://[::1]:6379',
    'redis+cluster://weir:secret@a:6379,b:6379,c:6379',
    'rediss+cluster://a:6379/0',
    'redis+sentinel://weir:secret@s1:26379,s2:26379/mymaster',
    'rediss+sentinel://s1/mymaster/2?sentinel_password=secret',
  ]) {
    it(`takes ${url}`, async () => {
      const { config } = await configOf(withUrl(url));
      assert.equal(config.storage.counters.url, url);
      assert.equal((await configOf(withUrl(url, 'cache'))).config.storage.cache.url, url);
    });
  }

  for (const [url, expected] of [
    ['rediz://weir:secret@a', /begins with "redis:\/\/", "redis\+cluster:\/\/" or "redis\+sentinel:\/\/"/],
    ['redis+ring://weir:secret@a', /begins with "redis:\/\/"/],
    ['redis://weir:secret@a:6379,b:6379', /one server behind "redis:\/\/".*redis\+cluster/],
    ['redis://a,b/1', /one server behind/],
    ['redis+cluster://weir:secret@a,b/2', /a cluster has only the database 0/],
    ['redis+cluster://weir:secret@a,b?tls=true', /nothing behind the servers/],
    ['redis+sentinel://weir:secret@a,b', /the name of the primary behind the sentinels/],
    ['redis+sentinel://weir:secret@a,b/', /the name of the primary/],
    ['redis+sentinel://weir:secret@a,b/0', /the name of the primary/],
    ['redis+sentinel://weir:secret@a,b?sentinel_password=secret', /the name of the primary/],
  ] as const) {
    for (const section of ['counters', 'cache', 'jobs']) {
      it(`refuses ${url} in ${section} with its place, and does not quote it`, async () => {
        const problems = await problemsOf(withUrl(url, section));
        assert.equal(problems.length, 1, problems.join('\n'));
        assert.match(problems[0] as string, expected);
        assert.match(problems[0] as string, /^main\.yaml:3:\d+: /);
        assert.doesNotMatch(problems.join('\n'), /secret/);
      });
    }
  }

  it('names what it takes instead of something else', async () => {
    assert.match(
      (await problemsOf(withUrl('valkey'))).join('\n'),
      /"memory:", "redis:\/\/HOST:6379", "redis\+cl/,
    );
    assert.match((await problemsOf(withUrl('memory:', 'jobs'))).join('\n'), /"file:", "redis:\/\/HOST:6379"/);
  });
});
