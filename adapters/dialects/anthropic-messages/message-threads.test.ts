import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ClientCall } from '../../../core/dialects/canonical/chat-codec.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { anthropicErrors } from './errors.ts';
import { anthropicClient } from './index.ts';

const body = { model: 'm', max_tokens: 9, messages: [{ role: 'user', content: 'Hi' }] };

function call(members: object): ClientCall {
  return { body: { ...body, ...members }, model: 'm', stream: false, query: '', header: () => undefined };
}

test('threads are refused in the words by which clients know it, and send everything', () => {
  for (const thread of [{ type: 'create' }, { type: 'continue', previous_message_id: 'msg_1' }]) {
    assert.throws(
      () => anthropicClient.decodeRequest(call({ thread })),
      (error) => {
        assert.ok(GatewayError.is(error));
        const shown = JSON.parse(anthropicErrors.encode(error, 'r-1').toString()) as {
          error: { type: string; message: string; details: object };
        };
        assert.equal(error.status, 400);
        assert.equal(shown.error.type, 'invalid_request_error');
        assert.match(shown.error.message, /all messages/);
        assert.deepEqual(shown.error.details, {
          error_code: 'thread_unsupported_request',
          unsupported: ['thread'],
        });
        return true;
      },
    );
  }
});

test('requests without a thread are read, and other errors have no details', () => {
  assert.equal(anthropicClient.decodeRequest(call({ thread: null })).messages.length, 1);
  const text = anthropicErrors.encode(new GatewayError('not_supported', 'No.'), 'r-1').toString();
  assert.ok(!text.includes('details'));
});
