import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { configOf, minimal, problemsOf } from './load-texts.test-support.ts';

const withUrl = (url: string): string => `${minimal}storage: { resources: { url: '${url}' } }\n`;

describe('storage.resources', () => {
  for (const url of [
    'pglite:',
    'pglite:./data/resources',
    'none:',
    'postgres://weir@db/weir',
    'postgresql://weir:secret@db:5432/weir?sslmode=verify-full',
  ]) {
    it(`takes ${url}`, async () => {
      const { config } = await configOf(withUrl(url));
      assert.equal(config.storage.resources.url, url);
    });
  }

  for (const url of ['mysql://weir:secret@db/weir', 'postgress://weir:secret@db/weir', 'weir:secret@db']) {
    it(`refuses ${url} without quoting it`, async () => {
      const problems = await problemsOf(withUrl(url));
      assert.equal(problems.length, 1);
      assert.match(problems[0] as string, /an address that begins with "postgres:\/\/"/);
      assert.doesNotMatch(problems.join('\n'), /secret/);
    });
  }

  it('names what it takes instead of something else', async () => {
    assert.match((await problemsOf(withUrl('sqlite:x'))).join('\n'), /"pglite:" and a directory/);
  });
});
