import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { createMemoryCache } from '../../storage/memory/cache.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { ResponseStore, type Owner, type StoredResponse } from './response-store.ts';

function memory() {
  const clock = new ManualClock();
  const cache = createMemoryCache({ clock, maxBytes: 10_000_000, maxValueBytes: 100_000 });
  return { clock, store: new ResponseStore({ cache, ttlMs: 60_000, maxBytes: 1000 }) };
}

const stored = (id: string, item: string, text = ''): StoredResponse => ({
  response: { id, output: [{ id: item, type: 'message', text }] },
  before: [],
  input: [{ role: 'user', content: 'Hi' }],
});

describe('stored responses', () => {
  test('are found by their owner alone, whatever owners and ids are called', async () => {
    const word = fc.string({ unit: fc.constantFrom('a', '1', ':', '|'), maxLength: 4 });
    const owner = fc.record({ organisationId: word, workspaceId: word });
    await fc.assert(
      fc.asyncProperty(owner, owner, word, word, async (one, other, id, item) => {
        fc.pre(id !== '' && item !== '');
        const { store } = memory();
        assert.equal(await store.keep(one, stored(id, item)), true);
        const isSame = ({ organisationId, workspaceId }: Owner): boolean =>
          organisationId === one.organisationId && workspaceId === one.workspaceId;
        for (const asking of [one, other]) {
          const found = await store.response(asking, id);
          assert.equal(found !== undefined, isSame(asking));
          assert.equal((await store.item(asking, item)) !== undefined, isSame(asking));
          if (id !== item) assert.equal(await store.response(asking, item), undefined);
        }
        await store.delete(one, stored(id, item));
        assert.equal(await store.response(one, id), undefined);
        assert.equal(await store.item(one, item), undefined);
      }),
    );
  });

  test('leave after their time, keep long numbers, and are not kept when they are too large', async () => {
    const { clock, store } = memory();
    const owner = { organisationId: 'o', workspaceId: 'w' };
    const exact: StoredResponse = { ...stored('resp_1', 'msg_1'), input: [{ seed: 12345678901234567890n }] };
    assert.equal(await store.keep(owner, exact), true);
    assert.deepEqual(await store.response(owner, 'resp_1'), exact);
    assert.equal(await store.keep(owner, stored('resp_2', 'msg_2', 'x'.repeat(1000))), false);
    assert.equal(await store.response(owner, 'resp_2'), undefined);
    assert.equal(await store.item(owner, 'msg_2'), undefined);
    clock.advance(60_001);
    assert.equal(await store.response(owner, 'resp_1'), undefined);
    assert.equal(await store.item(owner, 'msg_1'), undefined);
  });
});
