import assert from 'node:assert/strict';
import fc from 'fast-check';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { collectAnswer } from '../../../core/dialects/canonical/collect-answer.ts';
import { cutShort } from '../../../core/dialects/canonical/chat-event-builder.ts';
import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import { everySplit } from '../../framing/split-bytes.test-support.ts';
import { contextOf, frameOf, readStream } from './converse.test-support.ts';
import { bedrockConverseProvider } from './index.ts';
import type { JsonObject } from '../json-reading.ts';

function recording(name: string): readonly JsonObject[] {
  const url = new URL(`../../../tests/fixtures/wire/bedrock-converse/${name}.events`, import.meta.url);
  return readFileSync(url, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as JsonObject);
}

const schema = { responseFormat: { type: 'json-schema', schema: { type: 'object' } } } as const;
const delta = (contentBlockIndex: number, value: JsonObject) => ({
  contentBlockDelta: { contentBlockIndex, delta: value },
});
const startTool = (contentBlockIndex: number, toolUse: JsonObject) => ({
  contentBlockStart: { contentBlockIndex, start: { toolUse } },
});
const stop = (contentBlockIndex: number) => ({ contentBlockStop: { contentBlockIndex } });
const messageStop = (stopReason = 'end_turn') => ({ messageStop: { stopReason } });

function read(events: readonly JsonObject[], request?: Partial<ChatRequest>) {
  return readStream(events.map(frameOf), request);
}

function partsOf(events: readonly JsonObject[], request?: Partial<ChatRequest>) {
  const told = read(events, request);
  assert.equal(told.at(-1)?.type, 'end');
  return collectAnswer(told).choices[0]?.parts;
}

describe('a stream with blocks of every kind', () => {
  const events = recording('blocks-of-every-kind');

  it('is read in full', () => {
    const told = read(events);
    assert.equal(told.at(-1)?.type, 'end');
    const answer = collectAnswer(told);
    const providerTool = {
      type: 'provider-tool',
      dialect: 'bedrock-converse',
      id: 'srv_1',
      name: 'nova_grounding',
    };
    assert.deepEqual(answer.choices, [
      {
        index: 0,
        finish: { reason: 'tool-calls', raw: 'tool_use' },
        parts: [
          { type: 'reasoning', text: 'Wind from the west…', signature: 'c2lnbmVk' },
          { type: 'reasoning', text: '', redacted: 'aGlkZGVu' },
          {
            ...providerTool,
            phase: 'call',
            value: {
              toolUse: {
                toolUseId: 'srv_1',
                name: 'nova_grounding',
                type: 'server_tool_use',
                input: { query: 'wind' },
              },
            },
          },
          {
            ...providerTool,
            phase: 'result',
            value: {
              toolResult: {
                toolUseId: 'srv_1',
                type: 'nova_grounding_result',
                status: 'success',
                content: [{ text: '12 kn' }],
              },
            },
          },
          {
            type: 'text',
            text: 'It blows at 12 knots. 🌬',
            citations: [
              {
                kind: 'url',
                url: 'https://harbour.example',
                title: 'Harbour',
                raw: {
                  dialect: 'bedrock-converse',
                  value: {
                    title: 'Harbour',
                    location: { web: { url: 'https://harbour.example', domain: 'harbour.example' } },
                  },
                },
              },
            ],
          },
          {
            type: 'tool-call',
            id: 'tooluse_1',
            name: 'set_sail',
            kind: 'function',
            arguments: '{"id":12345678901234567890,"reef":"ö"}',
          },
          { type: 'tool-call', id: 'tooluse_2', name: 'list_buoys', kind: 'function', arguments: '{}' },
        ],
      },
    ]);
    assert.deepEqual([answer.usage?.promptTokens, answer.usage?.completionTokens], [15, 20]);
    assert.deepEqual(answer.extras, {
      'bedrock-converse': { trace: { guardrail: {} }, metrics: { latencyMs: 7 } },
    });
  });

  it('says the same wherever its bytes are cut', () => {
    const bytes = Buffer.concat(events.map(frameOf));
    const whole = readStream([bytes]);
    for (const chunks of everySplit(bytes)) assert.deepEqual(readStream(chunks), whole);
  });

  it('says the same when the types stand in the payloads', () => {
    const reader = bedrockConverseProvider.eventReader('application/x-ndjson', contextOf());
    const lines = Buffer.from(events.map((event) => JSON.stringify(event)).join('\n'));
    assert.deepEqual([...reader.push(lines), ...reader.finish()], read(events));
  });

  it('is torn wherever it ends early', () => {
    const frames = events.map(frameOf);
    for (let count = 0; count < frames.length; count++) {
      assert.deepEqual(readStream(frames.slice(0, count)).at(-1), { type: 'error', error: cutShort });
    }
  });
});

describe('an answer by the tool', () => {
  const events = recording('answer-by-tool');

  it('is text, and what was said before it is kept apart', () => {
    const answer = collectAnswer(read(events, schema));
    assert.deepEqual(answer.choices, [
      {
        index: 0,
        parts: [{ type: 'text', text: '{"river":"Danube"}' }],
        finish: { reason: 'stop', raw: 'tool_use' },
      },
    ]);
    assert.deepEqual(answer.extras, { 'bedrock-converse': { preamble: 'Here is the answer:' } });
  });

  it('streams its text as it comes', () => {
    const texts = read(events, schema).flatMap((event) => (event.type === 'text-delta' ? [event.text] : []));
    assert.deepEqual(texts, ['{"river":', '"Danube"}']);
  });

  it('is a call like any other for a request without a schema', () => {
    assert.deepEqual(
      partsOf(events)?.map(({ type }) => type),
      ['text', 'tool-call'],
    );
  });

  it('may be text after all', () => {
    const told = [delta(0, { text: '{"a"' }), delta(0, { text: ':1}' }), stop(0), messageStop()];
    assert.deepEqual(partsOf(told, schema), [{ type: 'text', text: '{"a":1}' }]);
  });

  it('stands behind a call that must be answered first', () => {
    const told = [
      delta(0, { text: 'Let me see.' }),
      startTool(1, { toolUseId: 'a', name: 'f' }),
      stop(1),
      messageStop('tool_use'),
    ];
    assert.deepEqual(
      partsOf(told, schema)?.map((part) => ('text' in part ? part.text : part.type)),
      ['Let me see.', 'tool-call'],
    );
  });

  it('without an input is an empty object', () => {
    const told = [startTool(0, { toolUseId: 'a', name: 'json' }), stop(0), messageStop('tool_use')];
    assert.deepEqual(partsOf(told, schema), [{ type: 'text', text: '{}' }]);
  });
});

describe('what wires do', () => {
  const call = { type: 'tool-call', name: 'f', kind: 'function' };

  it('blocks without an index, one behind the other', () => {
    const told = [
      { contentBlockStart: { start: { toolUse: { toolUseId: 'a', name: 'f' } } } },
      { contentBlockDelta: { delta: { toolUse: { input: '{"x":1}' } } } },
      { contentBlockStop: {} },
      { contentBlockStart: { start: { toolUse: { toolUseId: 'b', name: 'f' } } } },
      { contentBlockStop: {} },
      messageStop('tool_use'),
    ];
    assert.deepEqual(partsOf(told), [
      { ...call, id: 'a', arguments: '{"x":1}' },
      { ...call, id: 'b', arguments: '{}' },
    ]);
  });

  it('a start that comes again', () => {
    const told = [
      { messageStart: { role: 'assistant' } },
      startTool(0, { toolUseId: 'a', name: 'f' }),
      { messageStart: { role: 'assistant' } },
      startTool(0, { toolUseId: 'a', name: 'f' }),
      delta(0, { toolUse: { input: '{}' } }),
      stop(0),
      messageStop('tool_use'),
    ];
    assert.deepEqual(partsOf(told), [{ ...call, id: 'a', arguments: '{}' }]);
    assert.equal(read(told).filter(({ type }) => type === 'start').length, 1);
  });

  it('calls that interleave', () => {
    const told = [
      startTool(0, { toolUseId: 'a', name: 'f' }),
      startTool(1, { toolUseId: 'b', name: 'f' }),
      delta(1, { toolUse: { input: '{"b":' } }),
      delta(0, { toolUse: { input: '{"a":1}' } }),
      delta(1, { toolUse: { input: '2}' } }),
      messageStop('tool_use'),
    ];
    assert.deepEqual(partsOf(told), [
      { ...call, id: 'a', arguments: '{"a":1}' },
      { ...call, id: 'b', arguments: '{"b":2}' },
    ]);
  });

  it('an input that comes as an object', () => {
    const told = [
      startTool(0, { toolUseId: 'a', name: 'f' }),
      delta(0, { toolUse: { input: { x: [1] } } }),
      messageStop('tool_use'),
    ];
    assert.deepEqual(partsOf(told), [{ ...call, id: 'a', arguments: '{"x":[1]}' }]);
  });

  it('a custom tool, whose text is told when it is whole', () => {
    const told = [
      startTool(0, { toolUseId: 'a', name: 'x' }),
      delta(0, { toolUse: { input: '{"input":"SEL' } }),
      delta(0, { toolUse: { input: 'ECT 1"}' } }),
      stop(0),
      messageStop('tool_use'),
    ];
    assert.deepEqual(partsOf(told, { tools: [{ type: 'custom', name: 'x' }] }), [
      { type: 'tool-call', id: 'a', name: 'x', kind: 'custom', arguments: 'SELECT 1' },
    ]);
  });

  it('thinking and text of one index', () => {
    const told = [
      delta(0, { reasoningContent: { text: 'Hm' } }),
      delta(0, { text: 'Hi' }),
      stop(0),
      messageStop(),
    ];
    assert.deepEqual(partsOf(told), [
      { type: 'reasoning', text: 'Hm' },
      { type: 'text', text: 'Hi' },
    ]);
  });

  it('a signature without a thought, and hidden thinking in pieces', () => {
    const told = [
      delta(0, { reasoningContent: { signature: 's' } }),
      stop(0),
      delta(1, { reasoningContent: { redactedContent: 'YQ==' } }),
      delta(1, { reasoningContent: { redactedContent: 'Yg==' } }),
      messageStop(),
    ];
    assert.deepEqual(partsOf(told), [
      { type: 'reasoning', text: '', signature: 's' },
      { type: 'reasoning', text: '', redacted: Buffer.from('ab').toString('base64') },
    ]);
  });

  it('a picture', () => {
    const told = [
      { contentBlockStart: { contentBlockIndex: 0, start: { image: { format: 'png' } } } },
      delta(0, { image: { source: { bytes: 'AAAA' } } }),
      stop(0),
      messageStop(),
    ];
    assert.deepEqual(partsOf(told), [
      { type: 'image', source: { kind: 'base64', mediaType: 'image/png', data: 'AAAA' } },
    ]);
  });

  it('an answer without content, and events that nobody knows', () => {
    assert.deepEqual(partsOf([{ novelty: { a: 1 } }, messageStop()]) ?? [], []);
  });

  it('tells the stop sequence', () => {
    const told = read([
      {
        messageStop: { stopReason: 'stop_sequence', additionalModelResponseFields: { stop_sequence: 'END' } },
      },
    ]);
    assert.deepEqual(collectAnswer(told).choices[0]?.finish, {
      reason: 'stop',
      raw: 'stop_sequence',
      stopSequence: 'END',
    });
  });
});

describe('errors in a stream', () => {
  const errorOf = (chunks: readonly Uint8Array[]) => {
    const last = readStream(chunks).at(-1);
    assert.equal(last?.type, 'error');
    return last.error;
  };
  const begun = frameOf(delta(0, { text: 'Hi' }));

  it('are the exceptions of the provider, and nothing follows', () => {
    const chunks = [begun, frameOf({ throttlingException: { message: 'Slow.' } }), frameOf(messageStop())];
    assert.deepEqual(errorOf(chunks), { status: 429, message: 'Slow.', type: 'throttlingException' });
  });

  it('come behind a finish, too', () => {
    const chunks = [
      begun,
      frameOf(messageStop()),
      frameOf({ internalServerException: { message: 'Oops.' } }),
    ];
    assert.equal(errorOf(chunks).status, 500);
  });

  it('stand in a payload', () => {
    const reader = bedrockConverseProvider.eventReader('application/x-ndjson', contextOf());
    const events = reader.push(Buffer.from('{"validationException":{"message":"Bad."}}\n'));
    assert.deepEqual(events.at(-1), {
      type: 'error',
      error: { status: 400, message: 'Bad.', type: 'validationException' },
    });
  });

  it('are bytes that were changed on their way', () => {
    const broken = Buffer.from(frameOf(messageStop()));
    broken[broken.length - 6] = (broken[broken.length - 6] as number) ^ 1;
    const { status, message } = errorOf([begun, broken]);
    assert.equal(status, 502);
    assert.match(message, /checksum/);
  });

  it('are bytes that end within an event', () => {
    assert.match(errorOf([begun, frameOf(messageStop()).subarray(0, 20)]).message, /truncated/);
  });

  it('are events that hold no JSON', () => {
    const reader = bedrockConverseProvider.eventReader('text/event-stream', contextOf());
    assert.deepEqual(reader.push(Buffer.from('data: <html>\n\n')).at(-1)?.type, 'error');
  });
});

it('never throws, whatever the events hold, and ends once', () => {
  const index = fc.record({ contentBlockIndex: fc.constantFrom(0, 1, -1, 'x') }, { requiredKeys: [] });
  const inner = fc.oneof(
    fc.record({ text: fc.anything() }),
    fc.record({ toolUse: fc.oneof(fc.record({ input: fc.jsonValue() }), fc.jsonValue()) }),
    fc.record({
      toolUse: fc.record({
        toolUseId: fc.constantFrom('a', 'b', 1),
        name: fc.constantFrom('f', 'x', 'json'),
      }),
    }),
    fc.record({
      reasoningContent: fc.dictionary(
        fc.constantFrom('text', 'signature', 'redactedContent'),
        fc.jsonValue(),
      ),
    }),
    fc.record({ toolResult: fc.jsonValue() }),
    fc.record({ citation: fc.jsonValue() }),
    fc.record({ image: fc.jsonValue() }),
    fc.jsonValue(),
  );
  const event = fc.oneof(
    fc.tuple(index, inner).map(([at, start]) => ({ contentBlockStart: { ...at, start } })),
    fc.tuple(index, inner).map(([at, value]) => ({ contentBlockDelta: { ...at, delta: value } })),
    index.map((at) => ({ contentBlockStop: at })),
    fc.jsonValue().map((usage) => ({ metadata: { usage } })),
    fc.constant({ messageStop: { stopReason: 'end_turn' } }),
  );
  const request = { ...schema, tools: [{ type: 'custom', name: 'x' }] } as const;
  fc.assert(
    fc.property(fc.array(event, { maxLength: 12 }), (events) => {
      const frames = (events as JsonObject[]).map((one) =>
        frameOf(JSON.parse(JSON.stringify(one)) as JsonObject),
      );
      const told = readStream(frames, request);
      const ends = told.filter(({ type }) => type === 'end' || type === 'error');
      assert.equal(ends.length, 1);
      assert.equal(told.at(-1), ends[0]);
      collectAnswer(told);
    }),
    { numRuns: 300 },
  );
});
