import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dataUrls } from './request-members.ts';

test('a data URL becomes base64 with its media type; other URLs stay', () => {
  assert.deepEqual(dataUrls.source('data:image/PNG;base64,aGk='), {
    kind: 'base64',
    mediaType: 'image/png',
    data: 'aGk=',
  });
  assert.deepEqual(dataUrls.source('data:,a%20b', 'text/plain'), {
    kind: 'base64',
    mediaType: 'text/plain',
    data: Buffer.from('a b').toString('base64'),
  });
  assert.deepEqual(dataUrls.source('https://example.com/a.png'), {
    kind: 'url',
    url: 'https://example.com/a.png',
  });
  assert.deepEqual(dataUrls.source('data:image/png;base64'), { kind: 'url', url: 'data:image/png;base64' });
});

test('the URL of a source is read back as the same source', () => {
  const source = { kind: 'base64', mediaType: 'audio/wav', data: 'UklGRg==' } as const;
  assert.deepEqual(dataUrls.source(dataUrls.encode(source)), source);
});
