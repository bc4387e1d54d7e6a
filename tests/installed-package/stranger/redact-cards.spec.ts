import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cutsOf, startGateway, wires } from 'weir-gateway/testing';

const said = 'Pay with 4111 1111 1111 1111 now.';

test('no part of a card leaves, whatever the wire and the cut', async (t) => {
  const gateway = await startGateway({ plugin: new URL('./redact-cards.ts', import.meta.url), t });
  for (const wire of wires) {
    assert.equal((await gateway.ask({ wire, answer: said })).text, 'Pay with [card] now.');
    for (const answer of cutsOf(said)) {
      const reply = await gateway.ask({ wire, stream: true, answer });
      assert.deepEqual([reply.text, reply.problems], ['Pay with [card] now.', []]);
    }
  }
});

test('a group too many is an option that it refuses', async () => {
  const plugin = new URL('./redact-cards.ts', import.meta.url);
  await assert.rejects(startGateway({ plugin, options: { groups: 9 } }), /groups.*5/);
});
