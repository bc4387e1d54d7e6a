import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { AttemptContext, StreamEvent } from '../../core/pipeline/plugin.ts';
import { attemptContext } from '../../tests/kit/attempt-kit.ts';
import type { ShownGuardrail } from './running-guardrail.ts';
import { GuardrailTap } from './streamed-answer.ts';

/** Holds back eight units, and finds nothing. */
const clean: ShownGuardrail = {
  ...{ id: 'clean', type: 'guardrail', verdict: true, checks: [], feedback: null, transformed: false },
  ...{ execution_time: 0, created_at: '', async: false, deny: true, skipped: false },
};
const window = { reach: 8, judge: () => clean };

async function emitted(context: AttemptContext, events: readonly StreamEvent[]): Promise<string[]> {
  const tap = new GuardrailTap({ context, windows: [window], observers: [], took: () => undefined });
  const said: string[] = [];
  const emit = (event: StreamEvent): void =>
    void ('text' in event && said.push(`${event.type} ${event.text}`));
  for (const event of events) await tap.event(event, emit);
  await tap.end(emit);
  return said;
}

const events: readonly StreamEvent[] = [
  { type: 'reasoning-delta', choice: 0, text: 'I think it over' },
  { type: 'text-delta', choice: 0, text: 'This is the answer' },
  { type: 'finish', choice: 0, reason: 'stop' },
];

describe('a window over several texts', () => {
  test('on a wire of blocks, a text has left whole before the next one begins', async () => {
    const body = { model: 'm', max_tokens: 9, messages: [] };
    const context = await attemptContext({ path: '/messages', body });
    assert.equal(context.endpoint.dialect, 'anthropic-messages');
    const said = await emitted(context, events);
    const first = said.findIndex((one) => one.startsWith('text-delta'));
    const reasoning = said.filter((one) => one.startsWith('reasoning'));
    assert.equal(reasoning.map((one) => one.slice('reasoning-delta '.length)).join(''), 'I think it over');
    assert.ok(
      said.slice(first).every((one) => one.startsWith('text-delta')),
      said.join(' | '),
    );
  });

  test('an empty text is passed on as it is', async () => {
    const empty: StreamEvent = { type: 'text-delta', choice: 0, text: '' };
    assert.deepEqual(await emitted(await attemptContext(), [empty]), ['text-delta ']);
  });
});
