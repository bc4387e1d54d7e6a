import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ChatEvent } from '../dialects/canonical/chat-event.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { StreamSource, StreamTarget } from '../pipeline/answer.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import { emptyFacts } from '../pipeline/facts.ts';
import { systemClock } from '../ports/clock.ts';
import { TranslatedStream } from './translation.ts';

const usage = {
  promptTokens: 3,
  completionTokens: 2,
  totalTokens: 5,
  cachedTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
  inputAudioTokens: 0,
  outputAudioTokens: 0,
};

/** Reads events as JSON lists, one a chunk, and writes their types. */
function stream({ atEnd = [] as ChatEvent[], room = true, breaks = false } = {}) {
  const seen: string[] = [];
  let cancelled: GatewayError | undefined;
  let sink: StreamTarget | undefined;
  let resumed = 0;
  const source: StreamSource = {
    pipe: (target) => void (sink = target),
    resume: () => void resumed++,
    cancel: (error) => void (cancelled = error),
  };
  const reader = {
    push: (chunk: Uint8Array) => JSON.parse(Buffer.from(chunk).toString()) as ChatEvent[],
    finish: () => atEnd,
  };
  const writer = {
    contentType: 'text/event-stream',
    write(events: readonly ChatEvent[]) {
      if (breaks) throw new RangeError('cannot be said');
      return Buffer.from(events.map(({ type }) => type).join(' '));
    },
  };
  const facts = emptyFacts();
  const translated = new TranslatedStream(source, { reader, writer }, { facts } as Exchange, systemClock);
  translated.pipe({
    data(chunk) {
      seen.push(`data ${chunk.toString()}`);
      return room;
    },
    end: () => void seen.push('end'),
    fail: (error, told) =>
      void seen.push(`fail ${error.code} ${error.status} ${error.message} (${told?.toString()})`),
  });
  const send = (...events: ChatEvent[]) => sink?.data(Buffer.from(JSON.stringify(events)));
  return {
    seen,
    facts,
    send,
    sink: () => sink as StreamTarget,
    translated,
    source: () => ({ cancelled, resumed }),
  };
}

const start: ChatEvent = { type: 'start', id: 'a', model: 'm-1' };
const delta: ChatEvent = { type: 'text-delta', choice: 0, part: 0, text: 'hi' };
const overloaded: ChatEvent = {
  type: 'error',
  error: { status: 529, message: 'Overloaded', type: 'overloaded_error' },
};

describe('a translated stream', () => {
  test('events are written in the client’s wire, and what they tell is learned', () => {
    const one = stream({ atEnd: [{ type: 'end' }] });
    assert.equal(one.send(start, delta), true);
    one.send(
      { type: 'usage', usage },
      { type: 'finish', choice: 0, finish: { reason: 'stop', raw: 'end_turn' } },
    );
    one.sink().end();
    assert.deepEqual(one.seen, ['data start text-delta', 'data usage finish', 'data end', 'end']);
    assert.deepEqual(
      [one.facts.modelAnswered, one.facts.usage, one.facts.finishReason, one.facts.firstTokenAt > 0],
      ['m-1', usage, 'end_turn', true],
    );
  });

  test('an error event stops the provider and reaches the client with its status, told in its wire: provider_error', () => {
    const one = stream();
    one.send(start, delta, overloaded);
    assert.deepEqual(one.seen, ['data start text-delta', 'fail provider_error 529 Overloaded (error)']);
    assert.equal(one.source().cancelled?.type, 'overloaded_error');
    one.sink().end();
    one.send(delta);
    assert.equal(one.seen.length, 2);
  });

  test('a stream that ends too early is an error, never an end', () => {
    const torn: ChatEvent = { type: 'error', error: { status: 502, message: 'ended early' } };
    const one = stream({ atEnd: [torn] });
    one.send(start);
    one.sink().end();
    assert.deepEqual(one.seen, ['data start', 'fail provider_error 502 ended early (error)']);
  });

  test('a broken connection is told in the client’s wire, too', () => {
    const one = stream();
    one.send(start);
    one.sink().fail(new GatewayError('upstream_reset', 'The provider broke the connection.'));
    assert.deepEqual(one.seen.at(-1), 'fail upstream_reset 502 The provider broke the connection. (error)');
  });

  test('back-pressure goes through both ways, and so does the client’s leaving', () => {
    const one = stream({ room: false });
    assert.equal(one.send(start), false);
    one.translated.resume();
    const left = new GatewayError('client_closed', 'gone');
    one.translated.cancel(left);
    assert.deepEqual(one.source(), { cancelled: left, resumed: 1 });
  });

  test('what cannot be said in the client’s wire fails the answer instead of vanishing', () => {
    const one = stream({ breaks: true });
    one.send(start);
    assert.match(one.seen[0] ?? '', /^fail upstream_invalid 502/);
    assert.equal(one.source().cancelled?.code, 'upstream_invalid');
  });
});
