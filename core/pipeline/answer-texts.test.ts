import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { dialects } from '../../adapters/dialects/index.ts';
import { goldenClients } from '../../tests/golden/grid-gateway.ts';
import type { Dialect } from '../dialects/dialect.ts';
import type { DialectName, EndpointId } from '../dialects/endpoint.ts';
import {
  callers,
  gatewayWith,
  heardBy,
  original,
  targets,
  type Caller,
} from './every-dialect.test-support.ts';
import { definePlugin, redactor, type AnyPlugin, type AnswerText } from './plugin.ts';
import { parseJson } from '../base/json.ts';
import { EditableResponse } from './held-answer.ts';

const wires: readonly (readonly [DialectName, EndpointId])[] = [
  ['openai-chat', 'chat.completions'],
  ['openai-responses', 'responses'],
  ['anthropic-messages', 'messages'],
  ['google-gemini', 'generate-content'],
];

/** Recorded answers of a wire, with members that hosts of it add. */
function answersOf(wire: DialectName): readonly (readonly [string, string])[] {
  const folder = new URL(`../../tests/fixtures/wire/${wire}/`, import.meta.url);
  const recorded = readdirSync(folder)
    .filter((name) => name.endsWith('.json') && name !== 'text.array.json')
    .map((name) => [name, readFileSync(new URL(name, folder), 'utf8')] as const);
  return [...recorded, ...Object.entries(odd[wire] ?? {})];
}

const odd: Partial<Record<DialectName, Record<string, string>>> = {
  'openai-chat': {
    'parts, audio, both names of a thought, copies': `{ "choices": [ { "index": 1, "logprobs": {"content":[{"token":"first text"}]},
      "message": {"content": [{"type":"thinking","thinking":[{"type":"text","text":"deep thought"}]},{"type":"text","text":"first text"}],
      "refusal": "I refuse this", "annotations":[{"title":"first text"}], "content_blocks":[{"text":"first text"}] } },
      { "message": {"content":"second text", "reasoning":"same thought","reasoning_content":"same thought",
        "reasoning_details":[{"text":"same thought"}], "audio":{"transcript":"spoken words","data":"AAAA"},
        "tool_calls":[{"id":"1","custom":{"name":"c","input":"plain input"}}] } } ], "n": 123456789012345678901 }`,
    'a legacy call': `{"choices":[{"message":{"content":null,"function_call":{"name":"old","arguments":"{\\"city\\":1}"}}}]}`,
  },
  'openai-responses': {
    'sources, probabilities and a proof': `{"output":[{"type":"reasoning","summary":[{"type":"summary_text","text":"in short form"}],
      "content":[{"type":"reasoning_text","text":"at full length"}],"encrypted_content":"in short form"},
      {"type":"message","content":[{"type":"output_text","text":"cited text","annotations":[{"title":"cited text"}],
      "logprobs":[{"token":"cited text"}]},{"type":"refusal","refusal":"I refuse this"}]},
      {"type":"custom_tool_call","name":"c","input":"plain input"}]}`,
  },
  'anthropic-messages': {
    'sources and a signature': `{"content":[{"type":"thinking","thinking":"deep thought","signature":"deep thought"},
      {"type":"text","text":"cited text","citations":[{"cited_text":"cited text"}]}, {"type":"text","text":"cited text","citations":null},
      {"type":"server_tool_use","name":"s","input":{"query":"weather town","n":12345678901234567890}}]}`,
  },
  'google-gemini': {
    'what says the text again': `{"candidates":[{"content":{"parts":[{"thought":true,"text":"deep thought","thoughtSignature":"deep thought"},
      {"text":"grounded text"},{"functionCall":{"name":"f","args":{"city":"some town"}}}]},"groundingMetadata":{"x":"grounded text"},
      "logprobsResult":{"x":"grounded text"}},{"index":4,"content":{"parts":[{"text":"another text"}]}}]}`,
  },
};

function view(wire: DialectName, endpoint: EndpointId, text: string): EditableResponse {
  const dialect = dialects.get(wire) as Dialect;
  const answer = { status: 200, headers: [], bytes: Buffer.from(text) };
  return new EditableResponse(answer, 'provider', { dialect, endpoint: { id: endpoint } });
}

/** Texts by kind and choice; arguments one by one, as what they mean. */
function channels(texts: readonly AnswerText[]): Map<string, unknown> {
  const said = new Map<string, unknown>();
  for (const { type, choice, call, text } of texts) {
    const key = `${type}:${choice}:${call ?? ''}`;
    const before = said.get(key);
    if (type === 'tool-arguments') said.set(key, parseJson(text) ?? text);
    else if (text !== '') said.set(key, (typeof before === 'string' ? before : '') + text);
  }
  return said;
}

for (const [wire, endpoint] of wires) {
  describe(`the texts of ${wire} answers`, () => {
    for (const [name, text] of answersOf(wire)) {
      test(`${name}: are changed alone, with all that repeats them`, () => {
        const answer = view(wire, endpoint, text);
        const { bytes, texts } = answer;
        answer.setTexts((part) => part.text);
        assert.equal(answer.bytes, bytes, 'nothing was changed');
        const other = (part: AnswerText, i: number): string =>
          part.type === 'tool-arguments' ? `{"changed":${i}}` : `«${i}»`;
        answer.setTexts((part) => other(part, texts.indexOf(part as never)));
        assert.deepEqual(
          answer.texts.map((part) => part.text),
          texts.map(other),
        );
        for (const part of texts) {
          // What a provider's own tool found says again what it was asked.
          if (part.type === 'tool-arguments' || part.text.length < 5) continue;
          assert.ok(!answer.text.includes(JSON.stringify(part.text).slice(1, -1)), part.text);
        }
        // A member that is neither a text nor beside one is as it was.
        const again = view(wire, endpoint, text);
        const plainly = (json: unknown): string =>
          JSON.stringify(json, (_key, value: unknown) => (typeof value === 'bigint' ? String(value) : value));
        for (const { path, beside } of texts) {
          for (const at of [path, ...beside.map((one) => one.path)]) {
            answer.set(at, null);
            again.set(at, null);
          }
        }
        assert.equal(plainly(answer.json), plainly(again.json));
      });

      test(`${name}: are those of its stream`, () => {
        const codec = dialects.get(wire)?.frames;
        const reader = codec?.reader(endpoint);
        const frames = codec
          ?.disassemble(endpoint, Buffer.from(text))
          .flatMap((one) => reader?.push(one) ?? []);
        const numbers = new Map<string, number>();
        const streamed: AnswerText[] = [];
        for (const event of (frames ?? []).flatMap((frame) => frame.events)) {
          if (!('text' in event)) continue;
          const { choice, text: piece } = event;
          if (event.type !== 'tool-arguments-delta') {
            const type = event.type === 'text-delta' ? 'text' : 'reasoning';
            streamed.push({ type, choice, text: piece, path: [] });
            continue;
          }
          const at = `${choice}:${event.call}`;
          const call =
            numbers.get(at) ?? [...numbers.keys()].filter((key) => key.startsWith(`${choice}:`)).length;
          numbers.set(at, call);
          const known = streamed.findIndex((one) => one.call === call && one.choice === choice);
          const before = streamed[known]?.text ?? '';
          const part = { type: 'tool-arguments' as const, choice, call, text: before + piece, path: [] };
          if (known === -1) streamed.push(part);
          else streamed[known] = part;
        }
        const empty = (one: AnswerText): AnswerText =>
          one.type === 'tool-arguments' && one.text === '' ? { ...one, text: '{}' } : one;
        // No stream says what was spoken.
        const whole = view(wire, endpoint, text).texts.filter(({ path }) => !path.includes('audio'));
        assert.deepEqual(channels(streamed.map(empty)), channels(whole.map(empty)));
      });
    }

    test('a text that the answer does not have is refused', () => {
      const answer = view(wire, endpoint, '{}');
      assert.deepEqual(answer.texts, []);
      const part = { type: 'text', choice: 0, text: '', path: ['output', 0] } as const;
      assert.throws(() => answer.setText(part, 'x'), /The answer has no text at \/output\/0/);
    });
  });
}

test('completions have texts; embeddings, errors and what is no JSON have none', () => {
  const text = '{"choices":[{"text":" one","index":0,"logprobs":{"tokens":[" one"]}}]}';
  const answer = view('openai-completions', 'completions', text);
  const [part] = answer.texts;
  assert.ok(part !== undefined);
  answer.setText(part, 'two');
  assert.equal(answer.text, '{"choices":[{"text":"two","index":0,"logprobs":null}]}');
  for (const [wire, endpoint] of wires)
    for (const body of ['{"data":[{"embedding":[1]}]}', '{"error":{"message":"no"}}', '<html>', '[]', 'null'])
      assert.deepEqual(view(wire, endpoint, body).texts, []);
});

test('arguments that are no object are refused where the wire has one', () => {
  const answer = view(
    'anthropic-messages',
    'messages',
    '{"content":[{"type":"tool_use","name":"f","input":{}}]}',
  );
  const [part] = answer.texts;
  assert.ok(part !== undefined);
  assert.throws(() => answer.setText(part, 'no'), { code: 'upstream_invalid' });
  answer.setText(part, '');
  assert.equal(answer.text, '{"content":[{"type":"tool_use","name":"f","input":{}}]}');
});

/** The same caller without a stream. */
function whole({ path, body, ...caller }: Caller): Caller {
  const unstreamed = Object.fromEntries(
    Object.entries(body).filter(([name]) => name !== 'stream' && name !== 'stream_options'),
  );
  return {
    ...caller,
    path: path.replace(/:stream(.)enerateContent.*/i, ':generateContent'),
    body: unstreamed,
  };
}

const redacting = (rules: Parameters<typeof redactor>[0]): AnyPlugin =>
  definePlugin({
    name: 'redacting',
    capabilities: { changes: ['response.text'], stream: 'window' },
    create() {
      const redaction = redactor(rules);
      if (typeof redaction === 'string') throw new Error(redaction);
      return {
        response: (context) => void redaction.response(context),
        stream: (context) => redaction.stream(context),
      };
    },
  });

describe('what a redactor takes out', () => {
  const wanted = original.replaceAll('Vienna, Budapest', '[two cities]').replace('stays', 'st*ys');
  const plugin = redacting([
    { pattern: '(?i)vienna, BUDAPEST', replacement: '[two cities]' },
    { pattern: '\\bstays', replacement: 'st*ys' },
  ]);
  for (const caller of callers) {
    test(`is gone for ${caller.name} clients, streaming or not`, async (t) => {
      const { ask } = await gatewayWith(t, [plugin]);
      const client = goldenClients.find(({ dialect }) => dialect === caller.dialect);
      assert.ok(client !== undefined);
      for (const target of targets) {
        const answer = await ask(whole(caller), target);
        assert.equal(answer.status, 200, answer.text);
        const heard = client.hear(JSON.parse(answer.text) as never);
        assert.deepEqual([heard.text, heard.problems], [wanted, []], target);
        const streamed = await ask(caller, target);
        const streamedHeard = heardBy(caller, streamed);
        assert.deepEqual([streamedHeard.text, streamedHeard.problems], [wanted, []], streamed.text);
        for (const word of ['Budapest', 'Buda', 'stays']) {
          assert.ok(!answer.text.includes(word), answer.text);
          assert.ok(!streamed.text.includes(word), streamed.text);
        }
      }
    });
  }
});
