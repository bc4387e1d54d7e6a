import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ChatRequest } from '../../core/dialects/canonical/chat-request.ts';
import { EncodeReport } from '../../core/dialects/canonical/chat-codec.ts';
import { reportUnsayable, type Setting } from './request-settings.ts';

const settings: readonly Setting[] = ['n', 'store', 'modalities', 'parallel_tool_calls', 'seed', 'stop'];
const dropped = (given: Partial<ChatRequest>): readonly string[] => {
  const report = new EncodeReport();
  reportUnsayable({ model: 'm', stream: false, messages: [], tools: [], ...given }, settings, report);
  return report.dropped;
};

test('what a request asks for and its target cannot be told is reported, in the order of the wire', () => {
  assert.deepEqual(
    dropped({
      n: 2,
      store: true,
      modalities: ['text', 'audio'],
      parallelToolCalls: false,
      seed: 7n,
      user: 'u',
    }),
    ['n', 'store', 'modalities', 'parallel_tool_calls', 'seed'],
  );
});

test('what only says the default asks for nothing', () => {
  assert.deepEqual(dropped({ n: 1, store: false, modalities: ['text'], parallelToolCalls: true }), []);
  assert.deepEqual(dropped({}), []);
});
