import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { writeAwsEventStreamMessage } from '../../adapters/framing/write-aws-event-stream.test-support.ts';
import { scenarios } from '../../tests/golden/scenarios.ts';
import type { Part, Turn } from './app/src/pages/logs/blocks.ts';
import { answerTurns, requestTurns } from './app/src/pages/logs/conversation.ts';

const at = (path: string): string => fileURLToPath(new URL(`../../tests/${path}`, import.meta.url));
const read = (path: string): string => readFileSync(at(path), 'utf8');
const readJson = (path: string): unknown => JSON.parse(read(path)) as unknown;

/** Turns as they are shown, without the ids, which each wire makes in its own way. */
function shown(turns: readonly Turn[]): readonly string[] {
  return turns.flatMap(({ role, parts }) => parts.map((part) => `${role} ${shownPart(part)}`));
}

function shownPart(part: Part): string {
  if (part.kind === 'image') return `image ${part.url}`;
  if (part.kind === 'call' || part.kind === 'result')
    return `${part.kind} ${part.name} ${part.text.replaceAll(/\s+/g, ' ')}`;
  return `${part.kind} ${part.text}`;
}

const clients = ['chat', 'messages', 'gemini', 'responses'] as const;
const requestNames = readdirSync(at('golden/requests/chat')).map((file) => file.replace('.json', ''));

describe('a request is the same conversation in the wire of every client', () => {
  for (const name of requestNames)
    test(name, () => {
      const [chat, ...others] = clients.map((client) => {
        const turns = shown(requestTurns(readJson(`golden/requests/${client}/${name}.json`)));
        // A file is named in each wire as far as the wire names it.
        return turns.map((turn) => turn.replace(/other \[.*\]$/, 'other'));
      });
      assert.ok(chat && chat.length > 0);
      assert.ok(!chat.some((turn) => turn.includes('other {')), chat.join('\n'));
      for (const [index, other] of others.entries()) assert.deepEqual(other, chat, clients[index + 1]);
    });
});

test('an image, calls of tools and what they have answered are parts of their own', () => {
  const [client] = clients;
  const turns = requestTurns(readJson(`golden/requests/${client}/tool-results.json`));
  assert.deepEqual(shown(turns), [
    'user text Weather in Lübeck and tide in Travemünde?',
    'assistant text I will look up both.',
    'assistant call get_weather { "city": "Lübeck" }',
    'assistant call get_tide { "harbour": "Travemünde", "days": [ 1, 2 ] }',
    'tool result get_weather 14 °C',
    'tool result get_tide { "high": "16:40" }',
  ]);
  const [asked] = requestTurns(readJson(`golden/requests/${client}/image.json`));
  assert.deepEqual(
    asked?.parts.map(({ kind }) => kind),
    ['text', 'image'],
  );
});

const wires = [
  'openai-chat',
  'openai-responses',
  'anthropic-messages',
  'google-gemini',
  'bedrock-converse',
] as const;
type Wire = (typeof wires)[number];

/** A stream as its client gets it, and its format in the log. */
function streamOf(wire: Wire, name: string): readonly [body: unknown, format: string] {
  const events = read(`fixtures/wire/${wire}/${name}.events`).trim().split('\n');
  if (wire !== 'bedrock-converse') return [events.map((event) => `data: ${event}\n\n`).join(''), 'sse'];
  const frames = events.map((event) => {
    const [[type, payload] = ['', '']] = Object.entries(JSON.parse(event) as Record<string, unknown>);
    const headers = { ':event-type': type, ':content-type': 'application/json', ':message-type': 'event' };
    return writeAwsEventStreamMessage(headers, JSON.stringify(payload));
  });
  return [Buffer.concat(frames).toString('base64'), 'base64'];
}

describe('an answer is shown with its words, thoughts and calls, from every wire, whole and streamed', () => {
  for (const { name, answer = name, expected, without = [] } of scenarios) {
    if (!('finish' in expected)) continue;
    const words = [expected.text, expected.reasoning, expected.refusal].filter((one) => one !== undefined);
    for (const wire of wires) {
      if (without.includes(wire)) continue;
      for (const form of ['whole', 'streamed'] as const)
        test(`${name} from ${wire}, ${form}`, () => {
          const turns =
            form === 'whole'
              ? answerTurns(readJson(`fixtures/wire/${wire}/grid-${answer}.json`), 'json')
              : answerTurns(...streamOf(wire, `grid-${answer}`));
          const parts = turns.flatMap((turn) => turn.parts);
          assert.ok(turns.every(({ role }) => role === 'assistant'));
          const told = parts.flatMap((part) =>
            part.kind === 'text' || part.kind === 'thought' || part.kind === 'refusal' ? [part.text] : [],
          );
          const all = told.join('');
          for (const word of words) assert.ok(all.includes(word), `${all} has no ${word}`);
          for (const { name: tool, arguments: sent } of expected.calls ?? []) {
            const call = parts.find((part) => part.kind === 'call' && part.name === tool);
            assert.ok(call?.kind === 'call', `no call of ${tool}`);
            assert.deepEqual(JSON.parse(call.text), JSON.parse(sent));
          }
        });
    }
  }
});

test('Converse: a request with an image, calls and results, as text and in base64', () => {
  const body = {
    system: [{ text: 'Be terse.' }, { cachePoint: { type: 'default' } }],
    messages: [
      {
        role: 'user',
        content: [{ text: 'What is it?' }, { image: { format: 'png', source: { bytes: 'AAAA' } } }],
      },
      {
        role: 'assistant',
        content: [
          { reasoningContent: { reasoningText: { text: 'Look.', signature: 's' } } },
          { toolUse: { toolUseId: 't1', name: 'look', input: { at: 1 } } },
        ],
      },
      { role: 'user', content: [{ toolResult: { toolUseId: 't1', content: [{ json: { seen: true } }] } }] },
      { role: 'user', content: [{ document: { name: 'report', format: 'pdf', source: { bytes: 'AAAA' } } }] },
    ],
  };
  const expected = [
    'system text Be terse.',
    'user text What is it?',
    'user image data:image/png;base64,AAAA',
    'assistant thought Look.',
    'assistant call look { "at": 1 }',
    'tool result look { "seen": true }',
    'user other [report pdf]',
  ];
  assert.deepEqual(shown(requestTurns(body)), expected);
  const kept = Buffer.from(JSON.stringify(body)).toString('base64');
  assert.deepEqual(shown(requestTurns(kept, 'base64')), expected);
});

test('completions, whole and streamed, and several answers at once', () => {
  assert.deepEqual(shown(requestTurns({ prompt: ['Once', 'Twice'] })), ['user text Once', 'user text Twice']);
  assert.deepEqual(shown(answerTurns({ choices: [{ text: 'upon a time' }] }, 'json')), [
    'assistant text upon a time',
  ]);
  const events = [
    { choices: [{ index: 0, text: 'upon ' }] },
    { choices: [{ index: 1, text: 'more' }] },
    { choices: [{ index: 0, text: 'a time' }] },
  ];
  const stream = events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');
  assert.deepEqual(shown(answerTurns(`${stream}data: [DONE]\n\n`, 'sse')), [
    'assistant text upon a time',
    'assistant text more',
  ]);
});

test('a stream of responses that broke off is shown as far as it came', () => {
  const [body] = streamOf('openai-responses', 'grid-reasoning-tools');
  const cut = String(body)
    .split('\n\n')
    .filter((event) => !event.includes('response.completed'));
  const whole = shown(answerTurns(body, 'sse'));
  assert.ok(whole.length >= 3);
  assert.deepEqual(shown(answerTurns(cut.join('\n\n'), 'sse')), whole);
});

test('Gemini streams as a JSON array, and with the names of protocol buffers', () => {
  const turns = answerTurns(readJson('fixtures/wire/google-gemini/text.array.json'), 'json');
  assert.equal(turns.length, 1);
  const request = {
    system_instruction: { parts: [{ text: 'Be terse.' }] },
    contents: [{ parts: [{ inline_data: { mime_type: 'image/jpeg', data: 'AAAA' } }] }],
  };
  assert.deepEqual(shown(requestTurns(request)), [
    'system text Be terse.',
    'user image data:image/jpeg;base64,AAAA',
  ]);
});

test('what is no conversation has no turns, and broken bytes are none', () => {
  for (const body of [
    null,
    undefined,
    7,
    'text',
    '',
    [],
    {},
    { model: 'm' },
    { data: [{ embedding: [] }] },
  ]) {
    assert.deepEqual(requestTurns(body), []);
    assert.deepEqual(answerTurns(body, 'json'), []);
  }
  const [body] = streamOf('bedrock-converse', 'grid-text');
  const bytes = Buffer.from(String(body), 'base64');
  for (let length = 0; length < bytes.length; length += 7) {
    const turns = answerTurns(bytes.subarray(0, length).toString('base64'), 'base64');
    assert.ok(turns.length <= 1);
  }
  assert.deepEqual(answerTurns('!', 'base64'), []);
});
