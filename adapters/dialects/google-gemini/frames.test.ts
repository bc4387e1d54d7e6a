import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { FrameCodec } from '../../../core/dialects/dialect.ts';
import type { StreamEvent, StreamFrame } from '../../../core/dialects/stream-event.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import type { JsonObject } from '../json-reading.ts';
import { frameReader } from './frame-reader.ts';
import { geminiArrayFrames, geminiFrames } from './frame-rewriter.ts';
import { fixture } from './gemini-wire.test-support.ts';

function read(codec: FrameCodec, ...chunks: readonly Uint8Array[]): readonly StreamFrame[] {
  const reader = codec.reader('generate-content');
  return [...chunks.flatMap((chunk) => reader.push(chunk)), ...reader.finish()];
}

/** The bytes that leave when each event becomes others and `late` comes at the end. */
function through(
  codec: FrameCodec,
  bytes: Buffer,
  change: (event: StreamEvent) => readonly StreamEvent[],
  late: readonly StreamEvent[] = [],
): string {
  const rewriter = codec.rewriter?.();
  assert.ok(rewriter !== undefined);
  const out: StreamFrame[] = [];
  const frames = read(codec, bytes);
  for (const frame of frames) {
    if (frame.events[0]?.type === 'done') out.push(...rewriter.late(late));
    out.push(...rewriter.write(frame, frame.events.flatMap(change)));
  }
  if (!frames.some(({ events }) => events[0]?.type === 'done')) out.push(...rewriter.late(late));
  return Buffer.concat(out.map((frame) => frame.bytes)).toString();
}

const element = (text: string, more: object = {}): JsonObject => ({
  candidates: [{ content: { parts: [{ text }], role: 'model' }, index: 0, ...more }],
});
const events = (...objects: readonly object[]): Buffer =>
  Buffer.from(objects.map((json) => `data: ${JSON.stringify(json)}\r\n\r\n`).join(''));
const array = (...objects: readonly object[]): Buffer =>
  Buffer.from(`[${objects.map((json) => JSON.stringify(json)).join('\n,\r\n')}]\n`);
const replaced = (event: StreamEvent): readonly StreamEvent[] =>
  event.type === 'text-delta' ? [{ ...event, text: '#' }] : [event];

describe('calls that come in pieces', () => {
  test('are one frame with whole arguments, wherever the bytes are cut', () => {
    const bytes = fixture('tools.sse');
    const whole = read(geminiFrames, bytes);
    assert.deepEqual(Buffer.concat(whole.map((frame) => frame.bytes)), bytes);
    const calls = whole.flatMap((frame) => frame.events.filter((event) => 'text' in event));
    assert.deepEqual(
      calls.map((event) => [event.type === 'tool-arguments-delta' ? event.name : event.type, event.text]),
      [
        [
          'plan_trip',
          '{"stops":[{"city":"Koblenz","nights":2},{"city":"Trier \\"old town\\""}],"guided":false,"the note":null}',
        ],
        ['tide', '{"gauge":"Kaub"}'],
        ['now', '{}'],
      ],
    );
    for (let at = 0; at < bytes.length; at += 11) {
      const cut = read(geminiFrames, bytes.subarray(0, at), bytes.subarray(at));
      assert.deepEqual(
        cut.map((frame) => frame.events),
        whole.map((frame) => frame.events),
      );
    }
  });

  test('with other arguments are written whole, with the signature of the call', () => {
    const changed = through(geminiFrames, fixture('tools.sse'), (event) =>
      event.type === 'tool-arguments-delta' && event.call === 0 ? [{ ...event, text: '{"a":1}' }] : [event],
    );
    assert.doesNotMatch(changed, /blenz|partialArgs|Trier/);
    assert.match(
      changed,
      /"functionCall":\{"name":"plan_trip","args":\{"a":1\}\},"thoughtSignature"|"thoughtSignature":"cGxhbg=="/,
    );
    assert.match(changed, /"gauge":"Kaub"/);
  });

  test('that never end are one frame all the same; too much of one cannot be read', () => {
    const bytes = events({
      candidates: [{ content: { parts: [{ functionCall: { name: 'f', willContinue: true } }] } }],
    });
    const [frame] = read(geminiFrames, bytes);
    assert.deepEqual(frame?.events, [
      { type: 'tool-arguments-delta', choice: 0, call: 0, name: 'f', text: '{}' },
    ]);
    const reader = frameReader.ofEvents(bytes.length + 4);
    const frames = [...reader.push(Buffer.concat([bytes, bytes])), ...reader.finish()];
    assert.ok(frames.some(({ unread }) => unread === true));
  });
});

describe('what repeats a changed text', () => {
  test('is taken out from then on: sources, log probabilities', () => {
    const bytes = fixture('grounded.sse');
    const changed = through(geminiFrames, bytes, replaced);
    assert.doesNotMatch(changed, /Mosel|mündet|groundingMetadata/);
    assert.match(changed, /safetyRatings/);
    const logprobsResult = { chosenCandidates: [{ token: 'secret' }] };
    assert.doesNotMatch(
      through(geminiFrames, events(element('secret', { logprobsResult })), replaced),
      /secret/,
    );
  });

  test('stays where no text was changed', () => {
    const bytes = fixture('grounded.sse');
    assert.equal(
      through(geminiFrames, bytes, (event) => ['text' in event ? { ...event } : event]),
      bytes.toString(),
    );
  });
});

describe('one JSON array', () => {
  test('is cut into its elements wherever the bytes are cut, and says what the events say', () => {
    const bytes = fixture('text.array.json');
    const said = (frames: readonly StreamFrame[]): readonly StreamEvent[] =>
      frames.flatMap((frame) => frame.events.filter(({ type }) => type !== 'opaque' && type !== 'done'));
    const expected = said(read(geminiFrames, fixture('text.sse')));
    for (let at = 0; at <= bytes.length; at++) {
      const frames = read(geminiArrayFrames, bytes.subarray(0, at), bytes.subarray(at));
      assert.deepEqual(Buffer.concat(frames.map((frame) => frame.bytes)), bytes);
      assert.deepEqual(said(frames), expected);
    }
    assert.deepEqual(
      read(geminiArrayFrames, bytes)
        .flatMap((frame) => frame.events)
        .filter(({ type }) => type === 'done'),
      [{ type: 'done' }],
    );
  });

  test('stays one when elements go or come', () => {
    const bytes = array(element('one'), element('two'), element('three', { finishReason: 'STOP' }));
    const without = (dropped: string): unknown[] =>
      JSON.parse(
        through(geminiArrayFrames, bytes, (event) =>
          event.type === 'text-delta' && event.text === dropped ? [] : [event],
        ),
      ) as unknown[];
    assert.equal(without('one').length, 2);
    assert.equal(without('two').length, 2);
    assert.deepEqual(
      JSON.parse(through(geminiArrayFrames, bytes, (event) => (event.type === 'done' ? [event] : []))),
      [],
    );
    const late: StreamEvent = { type: 'text-delta', choice: 0, text: 'late' };
    for (const given of [bytes, array(), array(element('one'))]) {
      const added = through(geminiArrayFrames, given, (event) => [event], [late]);
      assert.match(JSON.stringify(JSON.parse(added)), /"late"/);
    }
  });

  test('an element that is too long or torn cannot be read', () => {
    const bytes = array(element('one'), element('x'.repeat(200)), element('two'));
    const reader = frameReader.ofArray(150);
    const frames = [];
    for (let at = 0; at < bytes.length; at += 20) frames.push(...reader.push(bytes.subarray(at, at + 20)));
    frames.push(...reader.finish());
    assert.deepEqual(Buffer.concat(frames.map((frame) => frame.bytes)), bytes);
    assert.deepEqual(
      frames.flatMap((frame) => frame.events.flatMap((event) => ('text' in event ? [event.text] : []))),
      ['one', 'two'],
    );
    assert.ok(frames.some(({ unread }) => unread === true));
    assert.equal(read(geminiArrayFrames, Buffer.from('[{"candidates":[')).at(-1)?.unread, true);
    assert.throws(
      () => geminiArrayFrames.assemble('generate-content', read(geminiArrayFrames, Buffer.from('[{"a":'))),
      { code: 'upstream_invalid' },
    );
  });

  test('an error is its last element', () => {
    const error = new GatewayError('hooks_failed', 'No.');
    const encode = (begun: boolean): string =>
      Buffer.from(geminiArrayFrames.encodeError?.(error, 'request-1', begun) ?? '').toString();
    const told = JSON.parse(`[${JSON.stringify(element('one'))}${encode(true)}`) as JsonObject[];
    assert.equal((told[1]?.error as JsonObject).message, 'No.');
    assert.equal((JSON.parse(encode(false)) as unknown[]).length, 1);
  });
});

test('reason, usage, error and candidates of their own', () => {
  const given = events(
    {
      candidates: [
        { content: { parts: [{ text: 'a' }] }, index: 0 },
        { content: { parts: [{ text: 'b' }] }, index: 1 },
      ],
      usageMetadata: { promptTokenCount: 1, totalTokenCount: 1 },
    },
    { error: { code: 503, message: 'Old.', status: 'UNAVAILABLE' } },
  );
  const changed = through(geminiFrames, given, (event) => {
    if (event.type === 'error') return [{ ...event, message: 'New.' }];
    if (event.type === 'usage') return [];
    return event.type === 'text-delta' && event.choice === 1 ? [{ ...event, text: 'B' }] : [event];
  });
  assert.match(changed, /"text":"a".*"text":"B"/);
  assert.doesNotMatch(changed, /Old|usageMetadata/);
  const ending = through(
    geminiFrames,
    events(element('x', { finishReason: 'STOP', finishMessage: 'm' })),
    (event) => [event.type === 'finish' ? { ...event, reason: 'SAFETY' } : event],
  );
  assert.match(ending, /"finishReason":"SAFETY"/);
  assert.doesNotMatch(ending, /STOP|finishMessage/);
});
