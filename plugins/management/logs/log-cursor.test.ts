import assert from 'node:assert/strict';
import { test } from 'node:test';
import { logCursor, type LogPlace } from './routes.ts';

const place: LogPlace = {
  order: 'oldest',
  window: { from: 1_700_000_000_000, to: 1_700_000_086_400 },
  after: { createdAt: 1_700_000_000_123, id: '0d1b2c3d-aaaa-4bbb-8ccc-0123456789ab' },
};

test('a cursor is the place that it was made of', () => {
  assert.deepEqual(logCursor.read(logCursor.write(place)), place);
  assert.deepEqual(logCursor.read(logCursor.write({ ...place, order: 'newest' })).order, 'newest');
  assert.match(logCursor.write(place), /^[\w-]+$/);
});

test('anything else is refused', () => {
  const cursor = logCursor.write(place);
  const text = Buffer.from(cursor, 'base64url').toString();
  const changed = Buffer.from(text.replace('oldest', 'newest')).toString('base64url');
  const later = Buffer.from(text.replace('0123 0d1b', '0124 0d1b')).toString('base64url');
  for (const bad of ['', 'x', cursor.slice(0, -4), `${cursor}AAAA`, changed, later, '%', "' OR 1=1"])
    assert.throws(() => logCursor.read(bad), { code: 'invalid_request', param: 'cursor' }, bad);
});
