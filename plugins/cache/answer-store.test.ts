import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { invalidationKey, invalidationKeptMs, type CacheArea } from '../../core/base/cache-namespace.ts';
import type { Cache } from '../../core/ports/cache.ts';
import { testScope } from '../../tests/kit/plugin-kit.ts';
import { AnswerStore, type StoredAnswer } from './stored-answer.ts';

const area: CacheArea = { organisationId: 'org-1', workspaceId: 'ws-1', namespace: 'docs' };
const maxAgeMs = 60_000;

function begin() {
  const { scope, clock } = testScope();
  const { cache } = scope;
  /** The same store, as one across a network answers. */
  const asked: string[][] = [];
  let turn: string[] | undefined;
  const later: Cache = {
    get(key) {
      if (turn === undefined) {
        asked.push((turn = []));
        queueMicrotask(() => (turn = undefined));
      }
      turn.push(key);
      return Promise.resolve(cache.get(key));
    },
    set: (key, bytes, ttlMs) => Promise.resolve(cache.set(key, bytes, ttlMs)),
    delete: (key) => Promise.resolve(cache.delete(key)),
  };
  const write = (key = 'k', askedAt = clock.now()): void => {
    const answer: StoredAnswer = {
      form: 'json',
      headers: [],
      body: Buffer.from('{}'),
      model: 'm',
      finishReason: 'stop',
      usage: undefined,
      tellsUsage: false,
      askedAt,
      storedAt: clock.now(),
    };
    new AnswerStore(cache, clock).write(key, answer, maxAgeMs);
  };
  const invalidate = (place: CacheArea): void =>
    void cache.set(invalidationKey(place), Buffer.from('.'), invalidationKeptMs);
  return { cache, later, clock, write, invalidate, asked };
}

for (const kind of ['cache', 'later'] as const) {
  describe(kind === 'cache' ? 'a store in memory' : 'a store across a network', () => {
    const places: readonly (readonly [string, CacheArea, boolean])[] = [
      ['its namespace', area, true],
      ['all of its workspace', { ...area, namespace: undefined }, true],
      ['another namespace', { ...area, namespace: 'other' }, false],
      ['another workspace', { ...area, workspaceId: 'ws-2' }, false],
      ['all of another workspace', { ...area, workspaceId: 'ws-2', namespace: undefined }, false],
      ['another organisation', { ...area, organisationId: 'org-2' }, false],
    ];
    for (const [what, place, gone] of places) {
      test(`an answer ${gone ? 'ends' : 'stays'} with the invalidation of ${what}`, async () => {
        const parts = begin();
        const store = new AnswerStore(parts[kind], parts.clock);
        parts.write();
        parts.clock.advance(10);
        parts.invalidate(place);
        assert.equal((await store.read('k', area, maxAgeMs)) === undefined, gone);
        assert.equal(parts.cache.get('k') === undefined, gone, 'and leaves the store');
        parts.clock.advance(1);
        parts.write();
        assert.ok(await store.read('k', area, maxAgeMs), 'one that was asked for later is good');
      });
    }

    test('an invalidation ends answers of its own area alone, whichever was asked for before', async () => {
      const { invalidate, clock, write, ...parts } = begin();
      const store = new AnswerStore(parts[kind], clock);
      write();
      clock.advance(10);
      const ended = { ...area, workspaceId: 'ws-2' };
      invalidate(ended);
      for (const place of [area, { ...area, organisationId: 'org-2' }, { ...area, namespace: 'other' }, area])
        assert.ok(await store.read('k', place, maxAgeMs), JSON.stringify(place));
      assert.equal(await store.read('k', ended, maxAgeMs), undefined);
    });

    test('an answer without a namespace ends only with all of its workspace', async () => {
      const { invalidate, clock, write, ...parts } = begin();
      const store = new AnswerStore(parts[kind], clock);
      const plain = { ...area, namespace: undefined };
      write();
      invalidate(area);
      assert.ok(await store.read('k', plain, maxAgeMs));
      invalidate(plain);
      assert.equal(await store.read('k', plain, maxAgeMs), undefined);
    });

    test('an answer that was on its way at that moment is stale, too', async () => {
      const { invalidate, clock, write, ...parts } = begin();
      const store = new AnswerStore(parts[kind], clock);
      const askedAt = clock.now();
      clock.advance(5);
      invalidate(area);
      clock.advance(5);
      write('k', askedAt);
      assert.equal(await store.read('k', area, maxAgeMs), undefined);
    });
  });
}

test('across a network a miss costs one way, and a hit a second one for all marks', async () => {
  const { later, clock, write, asked } = begin();
  const store = new AnswerStore(later, clock);
  assert.equal(await store.read('k', area, maxAgeMs), undefined);
  assert.deepEqual(asked.splice(0), [['k']]);
  write();
  assert.ok(await store.read('k', area, maxAgeMs));
  assert.deepEqual(asked, [
    ['k'],
    [invalidationKey({ ...area, namespace: undefined }), invalidationKey(area)],
  ]);
});

test('in memory a miss costs one look', () => {
  const { cache, clock } = begin();
  const asked: string[] = [];
  const watched = { ...cache, get: (key: string) => void asked.push(key) } as unknown as Cache;
  assert.equal(new AnswerStore(watched, clock).read('k', area, maxAgeMs), undefined);
  assert.deepEqual(asked, ['k']);
});

test('keys of marks tell nothing, and differ where areas do', () => {
  const areas: CacheArea[] = [
    area,
    { ...area, namespace: undefined },
    { ...area, namespace: '' },
    { ...area, organisationId: 'org-1|', workspaceId: 'ws-1' },
    { organisationId: 'org-1|4:ws-1', workspaceId: '', namespace: 'docs' },
  ];
  const keys = areas.map(invalidationKey);
  assert.equal(new Set(keys).size, areas.length);
  for (const key of keys) assert.match(key, /^[A-Za-z0-9_-]{43}$/);
});
