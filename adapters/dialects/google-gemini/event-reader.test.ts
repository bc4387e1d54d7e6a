import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ChatEvent } from '../../../core/dialects/canonical/chat-event.ts';
import type { ChatAnswer } from '../../../core/dialects/canonical/chat-answer.ts';
import { AnswerCollector, collectAnswer } from '../../../core/dialects/canonical/collect-answer.ts';
import { chunksAt, everySplit } from '../../framing/split-bytes.test-support.ts';
import { decodeContext, fixture } from './gemini-wire.test-support.ts';
import { geminiProvider } from './host.ts';

const sse = 'text/event-stream';

function readStream(
  chunks: readonly Uint8Array[],
  contentType = sse,
  context = decodeContext(),
): readonly ChatEvent[] {
  const reader = geminiProvider.eventReader(contentType, context);
  const events = chunks.flatMap((chunk) => [...reader.push(chunk)]);
  return [...events, ...reader.finish()];
}

function answerOf(events: readonly ChatEvent[]): ChatAnswer {
  const collector = new AnswerCollector();
  for (const event of events) collector.add(event);
  assert.equal(collector.error, undefined);
  assert.ok(collector.complete);
  return collector.answer();
}

/** Events of these objects as a host would stream them. */
function streamed(...objects: readonly object[]): Buffer {
  return Buffer.from(objects.map((object) => `data: ${JSON.stringify(object)}\n\n`).join(''));
}

function candidate(parts: readonly object[], more: object = {}): object {
  return { candidates: [{ content: { parts, role: 'model' }, index: 0, ...more }] };
}

describe('event reader', () => {
  for (const file of ['text.sse', 'tools.sse', 'grounded.sse', 'error.sse'])
    test(`${file}: the same events wherever the bytes are cut`, () => {
      const bytes = fixture(file);
      const whole = readStream([bytes]);
      for (const chunks of everySplit(bytes)) assert.deepEqual(readStream(chunks), whole);
    });

  test('text: thoughts, text, signature, usage with thoughts in the completion', () => {
    const answer = answerOf(readStream([fixture('text.sse')]));
    assert.deepEqual(answer.choices[0]?.parts, [
      { type: 'reasoning', text: 'Looking at the tide table.' },
      { type: 'text', text: 'Hochwasser in Köln: 7 m – steigend 🌊', signature: 'c2lnbmF0dXJl' },
    ]);
    assert.deepEqual(answer.choices[0]?.finish, { reason: 'stop', raw: 'STOP' });
    assert.equal(answer.usage?.completionTokens, 14);
    assert.equal(answer.usage?.cachedTokens, 3);
    assert.equal(answer.id, 'resp-7');
  });

  test('a JSON array says the same as events, cut anywhere', () => {
    const expected = answerOf(readStream([fixture('text.sse')]));
    const bytes = fixture('text.array.json');
    for (let at = 0; at < bytes.length; at += 7)
      assert.deepEqual(answerOf(readStream(chunksAt(bytes, [at]), 'application/json')), expected);
    // An array that was not closed took nothing from the answer.
    const torn = bytes.subarray(0, bytes.lastIndexOf(']'));
    assert.deepEqual(answerOf(readStream([torn], 'application/json')), expected);
  });

  test('tools: arguments by path, whole, and none, each one valid JSON text', () => {
    const { parts, finish } = answerOf(readStream([fixture('tools.sse')])).choices[0] ?? {};
    const calls = (parts ?? []).flatMap((part) => (part.type === 'tool-call' ? [part] : []));
    assert.deepEqual(
      calls.map(({ id, name }) => [id, name]),
      [
        ['call_0', 'plan_trip'],
        ['given-1', 'tide'],
        ['call_1', 'now'],
      ],
    );
    assert.deepEqual(
      calls.map((call) => JSON.parse(call.arguments) as unknown),
      [
        {
          stops: [{ city: 'Koblenz', nights: 2 }, { city: 'Trier "old town"' }],
          guided: false,
          'the note': null,
        },
        { gauge: 'Kaub' },
        {},
      ],
    );
    assert.equal(calls[0]?.signature, 'cGxhbg==');
    assert.deepEqual(finish, { reason: 'tool-calls', raw: 'STOP' });
  });

  test('tools of Google are no calls; sources are placed in UTF-16, though the wire counts bytes', () => {
    const { parts = [], finish, extras } = answerOf(readStream([fixture('grounded.sse')])).choices[0] ?? {};
    assert.deepEqual(
      parts.map(({ type }) => type),
      ['provider-tool', 'provider-tool', 'text'],
    );
    const [call, result, text] = parts;
    assert.ok(call?.type === 'provider-tool' && result?.type === 'provider-tool' && text?.type === 'text');
    assert.equal(result.id, call.id);
    assert.deepEqual(finish, { reason: 'stop', raw: 'STOP' });
    assert.equal(text.text, 'Die Mosel ist 544 km lang. Sie mündet bei Koblenz – am Eck.');
    const [first, second] = text.citations ?? [];
    assert.equal(text.text.slice(first?.start, first?.end), 'Sie mündet bei Koblenz');
    assert.equal(first?.url, 'https://example.org/mosel');
    assert.deepEqual([second?.url, second?.start], ['https://example.org/eck', undefined]);
    assert.ok(extras?.['google-gemini']?.safetyRatings !== undefined);
  });

  test('an error event ends the stream in it; so does a stream without a finish reason', () => {
    const failed = readStream([fixture('error.sse')]).at(-1);
    assert.ok(failed?.type === 'error');
    assert.deepEqual(failed.error, { status: 503, message: 'The model is overloaded.', type: 'UNAVAILABLE' });
    const cut = readStream([streamed(candidate([{ text: 'half' }]))]).at(-1);
    assert.ok(cut?.type === 'error');
    assert.match(cut.error.message, /ended before/);
    for (const bytes of ['', 'data: {"cand', 'data: no json\n\n', 'data: {}\n\n'])
      assert.equal(readStream([Buffer.from(bytes)]).at(-1)?.type, 'error', bytes);
    const array = readStream(
      [Buffer.from('[{"error":{"code":429,"message":"Slow down."}}]')],
      'application/json',
    );
    const [error] = array;
    assert.ok(error?.type === 'error' && error.error.status === 429);
  });

  test('a blocked prompt is a refusal', () => {
    const { choices } = answerOf(readStream([streamed({ promptFeedback: { blockReason: 'SAFETY' } })]));
    assert.deepEqual(choices[0]?.finish, { reason: 'content-filter', raw: 'SAFETY' });
    assert.equal(choices[0]?.parts[0]?.type, 'refusal');
    const none = answerOf(readStream([streamed({ candidates: [{ finishReason: 'RECITATION', index: 0 }] })]));
    assert.equal(none.choices[0]?.parts[0]?.type, 'refusal');
  });

  const endings: readonly (readonly [string, string, boolean])[] = [
    ['STOP', 'stop', false],
    ['STOP', 'tool-calls', true],
    ['MAX_TOKENS', 'length', true],
    ['SAFETY', 'content-filter', false],
    ['SPII', 'content-filter', false],
    ['MALFORMED_FUNCTION_CALL', 'error', false],
    ['UNEXPECTED_TOOL_CALL', 'error', false],
    ['OTHER', 'unknown', false],
    ['SOMETHING_NEW', 'unknown', false],
  ];
  for (const [raw, reason, withCall] of endings)
    test(`${raw}${withCall ? ' with a call' : ''} is ${reason}`, () => {
      const parts = withCall ? [{ functionCall: { name: 'f', args: {} } }] : [{ text: 'x' }];
      const { choices } = answerOf(readStream([streamed(candidate(parts, { finishReason: raw }))]));
      assert.deepEqual(choices[0]?.finish, { reason, raw });
    });

  test('a finish reason with every event, repeated calls and late parts lose and double nothing', () => {
    const call = { functionCall: { id: 'a', name: 'f', args: { n: 1 } } };
    const { choices } = answerOf(
      readStream([
        streamed(
          candidate([{ text: 'One ' }], { finishReason: 'STOP' }),
          candidate([{ text: 'two.' }, call], { finishReason: 'STOP' }),
          candidate([call], { finishReason: 'STOP' }),
        ),
      ]),
    );
    assert.deepEqual(choices[0]?.parts, [
      { type: 'text', text: 'One two.' },
      { type: 'tool-call', id: 'a', name: 'f', kind: 'function', arguments: '{"n":1}' },
    ]);
  });

  test('a call that never ends, one whose arguments come at the end, and a custom tool', () => {
    const tools = [{ type: 'custom', name: 'shell' } as const];
    const bytes = streamed(
      candidate([{ functionCall: { name: 'shell', willContinue: true } }]),
      candidate([
        { functionCall: { partialArgs: [{ jsonPath: '$.input', stringValue: 'ls' }], willContinue: true } },
      ]),
      candidate([{ functionCall: { name: 'f', willContinue: true } }]),
      candidate([{ functionCall: { args: { whole: true } } }]),
      candidate([{ functionCall: { name: 'g', args: '{"quoted":1}', willContinue: true } }]),
      candidate([{ text: '' }], { finishReason: 'STOP' }),
    );
    const { choices } = answerOf(readStream([bytes], sse, decodeContext({ tools })));
    assert.deepEqual(
      choices[0]?.parts.map((part) => (part.type === 'tool-call' ? [part.kind, part.arguments] : [])),
      [
        ['custom', 'ls'],
        ['function', '{"whole":true}'],
        ['function', '{"quoted":1}'],
      ],
    );
  });

  test('a signature seals its text: what follows is another part', () => {
    const { choices } = answerOf(
      readStream([
        streamed(
          candidate([{ text: 'a', thoughtSignature: 's1' }, { text: 'b' }]),
          candidate([{ text: '', thoughtSignature: 's2' }], { finishReason: 'STOP' }),
        ),
      ]),
    );
    assert.deepEqual(choices[0]?.parts, [
      { type: 'text', text: 'a', signature: 's1' },
      { type: 'text', text: 'b', signature: 's2' },
    ]);
  });

  test('images come whole; a recording in pieces is one valid recording', () => {
    const pcm = (bytes: readonly number[]): object => ({
      inlineData: { mimeType: 'audio/L16;rate=24000', data: Buffer.from(bytes).toString('base64') },
    });
    const { choices } = answerOf(
      readStream([
        streamed(
          candidate([{ inlineData: { mimeType: 'image/png', data: 'aWRl' }, thought: true }]),
          candidate([{ inlineData: { mimeType: 'image/png', data: 'iVBO' }, thoughtSignature: 's' }]),
          candidate([pcm([1, 2])]),
          candidate([pcm([3, 4, 5, 6])], { finishReason: 'STOP' }),
        ),
      ]),
    );
    const [draft, image, audio] = choices[0]?.parts ?? [];
    assert.equal(draft?.type, 'opaque');
    assert.equal(image?.signature, 's');
    assert.ok(image?.type === 'image' && image.source.kind === 'base64' && image.source.data === 'iVBO');
    assert.ok(audio?.type === 'audio' && audio.source.kind === 'base64');
    assert.deepEqual([...Buffer.from(audio.source.data, 'base64')], [1, 2, 3, 4, 5, 6]);
  });

  test('candidates stand apart, with their log probabilities', () => {
    const logprobsResult = {
      chosenCandidates: [{ token: 'b', logProbability: -0.5 }],
      topCandidates: [{ candidates: [{ token: 'c', logProbability: -1 }] }],
    };
    const content = (text: string): object => ({ content: { parts: [{ text }] }, finishReason: 'STOP' });
    const { choices } = collectAnswer(
      readStream([
        streamed({
          candidates: [
            { ...content('a'), index: 0 },
            { ...content('b'), index: 1, logprobsResult },
          ],
        }),
      ]),
    );
    assert.deepEqual(
      choices.map(({ index, parts }) => [index, parts.length]),
      [
        [0, 1],
        [1, 1],
      ],
    );
    assert.deepEqual(choices[1]?.logprobs, [
      { token: 'b', logprob: -0.5, top: [{ token: 'c', logprob: -1 }] },
    ]);
  });
});

describe('complete answer', () => {
  test('keeps long integers of arguments, signatures and usage', () => {
    const answer = geminiProvider.decodeAnswer(fixture('answer.json'), decodeContext());
    assert.deepEqual(answer.choices[0]?.parts, [
      { type: 'reasoning', text: 'Weighing.' },
      { type: 'text', text: 'Up.', signature: 'dXA=' },
      {
        type: 'tool-call',
        id: 'call_0',
        name: 'tide',
        kind: 'function',
        arguments: '{"gauge":"Kaub","number":12345678901234567890}',
        signature: 'Y2FsbA==',
      },
    ]);
    assert.equal(answer.usage?.completionTokens, 12);
  });

  test('a blocked prompt is an answer; what is none throws', () => {
    const blocked = geminiProvider.decodeAnswer(fixture('blocked.json'), decodeContext());
    assert.equal(blocked.choices[0]?.finish.reason, 'content-filter');
    assert.equal(blocked.usage?.promptTokens, 9);
    for (const body of ['', '<html>', '"text"', '{}', '{"error":{"code":500,"message":"No."}}'])
      assert.throws(() => geminiProvider.decodeAnswer(Buffer.from(body), decodeContext()), {
        code: 'upstream_invalid',
      });
  });
});
