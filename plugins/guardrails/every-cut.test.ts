// What guardrails find in a streamed answer does not depend on where its bytes, or its texts, are cut.
import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { describe, test } from 'node:test';
import { dialects } from '../../adapters/dialects/index.ts';
import { codecFor } from '../../core/dialects/dialect.ts';
import type { DialectName, EndpointId } from '../../core/dialects/endpoint.ts';
import type { StreamEvent } from '../../core/dialects/stream-event.ts';
import type { AnyCheck } from '../../core/pipeline/plugin.ts';
import { attemptContext } from '../../tests/kit/attempt-kit.ts';
import { providerPlugin, startTestGateway } from '../../tests/kit/gateway-kit.ts';
import { send, startUpstream } from '../../tests/kit/http-kit.ts';
import { testScope } from '../../tests/kit/plugin-kit.ts';
import { builtInChecks } from './checks/index.ts';
import guardrails from './index.ts';
import { RunningGuardrail } from './running-guardrail.ts';
import { GuardrailTap } from './streamed-answer.ts';
import { guardrailSpec } from '../../core/ports/guardrails.ts';

/** A client of one wire, and the provider that speaks the same. */
interface Wire {
  readonly name: string;
  readonly dialect: DialectName;
  readonly endpoint: EndpointId;
  readonly provider: string;
  readonly path: string;
  readonly body: (text: string) => object;
  /** Content type of its streams. */
  readonly type: string;
}

const messages = (text: string) => [{ role: 'user', content: text }];
const gemini = '/v1beta/models/m:streamGenerateContent';
const contents = (text: string) => ({ contents: [{ role: 'user', parts: [{ text }] }] });
const events = 'text/event-stream';
const wires: readonly Wire[] = [
  {
    name: 'chat',
    dialect: 'openai-chat',
    endpoint: 'chat.completions',
    provider: 'openai',
    path: '/v1/chat/completions',
    body: (text) => ({ model: 'm', stream: true, messages: messages(text) }),
    type: events,
  },
  {
    name: 'completions',
    dialect: 'openai-completions',
    endpoint: 'completions',
    provider: 'openai',
    path: '/v1/completions',
    body: (prompt) => ({ model: 'm', stream: true, prompt, max_tokens: 200 }),
    type: events,
  },
  {
    name: 'responses',
    dialect: 'openai-responses',
    endpoint: 'responses',
    provider: 'openai',
    path: '/v1/responses',
    body: (input) => ({ model: 'm', stream: true, input }),
    type: events,
  },
  {
    name: 'messages',
    dialect: 'anthropic-messages',
    endpoint: 'messages',
    provider: 'anthropic',
    path: '/v1/messages',
    body: (text) => ({ model: 'm', stream: true, max_tokens: 200, messages: messages(text) }),
    type: events,
  },
  {
    name: 'gemini',
    dialect: 'google-gemini',
    endpoint: 'generate-content',
    provider: 'gemini',
    path: `${gemini}?alt=sse`,
    body: contents,
    type: events,
  },
  {
    name: 'gemini, as an array',
    dialect: 'google-gemini',
    endpoint: 'generate-content',
    provider: 'gemini',
    path: gemini,
    body: contents,
    type: 'application/json',
  },
];

/** The text that is looked for, by the check that finds it; it stands in the middle of a text. */
const matches: readonly (readonly [name: string, match: string, check: object, label: string])[] = [
  ['an address', 'jane.o@example.com', { 'default.pii': {} }, '[EMAIL_ADDRESS]'],
  ['a secret', 'ghp_0123456789abcdefghijABCDEF', { 'default.secrets': {} }, '[GITHUB]'],
  ['a word', 'Größe 🌊 XL', { 'default.contains': { words: ['Größe 🌊 XL'], operator: 'none' } }, ''],
  ['an expression', 'code 4711-🌊', { 'default.regexMatch': { rule: 'code [0-9]{4}-.', not: true } }, ''],
];
/** As a header can say it. */
const asciiOf = (value: object): string =>
  JSON.stringify(value).replace(/[^ -~]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`);
const around = (match: string) => `Of all things (${match}), nothing stays.`;

/** What the wire's own reader hears. */
function textOf({ dialect, endpoint, type }: Wire, pieces: readonly Uint8Array[]): string {
  const codec = codecFor(dialects.get(dialect)?.frames, type);
  assert.ok(codec !== undefined);
  const reader = codec.reader(endpoint);
  const frames = [...pieces.flatMap((piece) => [...reader.push(piece)]), ...reader.finish()];
  return frames
    .flatMap((frame) => frame.events)
    .map((event) => (event.type === 'text-delta' ? event.text : ''))
    .join('');
}

test('bytes of streams, cut anywhere', { timeout: 120_000 }, async (t) => {
  let play: (response: ServerResponse) => void;
  const { url } = await startUpstream(t, (_request, response) => play(response));
  const gateway = await startTestGateway(t, {
    plugins: [guardrails, providerPlugin()],
    providers: {
      small: { base_url: 'mock:?chunk_tokens=1', credentials: 'none' },
      openai: { base_url: url, api_key: 'k', also_speaks: ['openai-responses', 'openai-completions'] },
      anthropic: { dialect: 'anthropic-messages', base_url: url, api_key: 'k' },
      gemini: { dialect: 'google-gemini', base_url: url, api_key: 'k' },
    },
  });
  const ask = ({ path, body }: Wire, config: object, match: string) =>
    send(gateway.url, { path, headers: { 'x-service-config': asciiOf(config) }, body: body(around(match)) });

  for (const wire of wires)
    await t.test(`${wire.name}: its reader hears the same, wherever the bytes are cut`, async () => {
      const whole = (await ask(wire, { provider: '@small' }, '🌊')).body;
      const said = textOf(wire, [whole]);
      assert.match(said, /🌊/);
      for (let at = 1; at < whole.length; at += 1)
        assert.equal(textOf(wire, [whole.subarray(0, at), whole.subarray(at)]), said, `cut at ${at}`);
    });

  for (const wire of wires)
    for (const [name, match, check, label] of matches)
      await t.test(`${wire.name}: ${name}`, async () => {
        const whole = (await ask(wire, { provider: '@small' }, match)).body;
        const said = textOf(wire, [whole]);
        const start = said.indexOf(match);
        assert.ok(start > 0, said);
        const [own] = Object.entries(check) as [[string, object]];
        const provider = `@${wire.provider}`;
        const deny = { ...check, deny: true };
        const configs = {
          hold: { provider, output_guardrails: [{ ...deny, stream: 'hold' }] },
          ...(label === ''
            ? { window: { provider, output_guardrails: [{ ...deny, stream: 'window' }] } }
            : { redact: { provider, output_mutators: [{ [own[0]]: { ...own[1], redact: true } }] } }),
        };
        const first = whole.indexOf(Buffer.from(match.slice(0, 2)));
        const places = new Set([1, first, first + 1, whole.length - 1]);
        for (let at = 7; at < whole.length; at += Math.ceil(whole.length / 4)) places.add(at);
        for (const [mode, config] of Object.entries(configs))
          for (const at of [0, ...places]) {
            // 0: each byte by itself.
            const cuts = at === 0 ? [...whole.keys()].slice(1) : [at];
            play = (response) => {
              response.writeHead(200, { 'content-type': wire.type });
              let from = 0;
              const next = (): void => {
                const to = cuts.shift() ?? whole.length;
                if (from === whole.length) return void response.end();
                response.write(whole.subarray(from, (from = to)));
                setImmediate(next);
              };
              next();
            };
            const answer = await ask(wire, config, match);
            const where = `${mode}, cut at ${at}: ${answer.status}`;
            if (mode === 'hold') {
              assert.equal(answer.status, 446, where);
              continue;
            }
            const heard = textOf(wire, [answer.body]);
            if (mode === 'redact') assert.equal(heard, said.replace(match, label), where);
            else {
              assert.match(answer.text, /refused the answer/, where);
              assert.ok(said.slice(0, start).startsWith(heard), `${where}: ${heard}`);
            }
          }
      });
});

describe('texts of streams, cut anywhere', () => {
  const byId = new Map(builtInChecks.map((check): [string, AnyCheck] => [check.id, check]));
  const { scope } = testScope({
    guards: { ids: [...byId.keys()], issues: () => [], definition: (id) => byId.get(id) },
  });

  /** The text that has left when these pieces have come, and whether the stream was refused. */
  async function through(guardrail: RunningGuardrail, path: string, pieces: readonly string[]) {
    const context = await attemptContext({ path });
    const refused = new Error('refused');
    const tap = new GuardrailTap({
      context,
      windows: [guardrail],
      observers: [],
      took: ({ verdict }) => {
        if (!verdict) throw refused;
      },
    });
    let left = '';
    const emit = (event: StreamEvent): void => {
      if (event.type === 'text-delta') left += event.text;
    };
    try {
      for (const text of pieces) await tap.event({ type: 'text-delta', choice: 0, text }, emit);
      await tap.end(emit);
      return { left, isRefused: false };
    } catch (error) {
      assert.equal(error, refused);
      return { left, isRefused: true };
    }
  }

  const running = (id: string, parameters: object) =>
    new RunningGuardrail(
      guardrailSpec(
        {
          id: 'w',
          version: undefined,
          type: 'guardrail',
          sealed: undefined,
          checks: [{ id, name: id, isEnabled: true, parameters: parameters as Record<string, never> }],
        },
        { deny: true, stream: 'window' },
      ),
      scope,
      ({ parameters: own }) => own,
    );

  const long = 'x'.repeat(90);
  for (const [name, match, id, parameters] of [
    ['a word', 'Initech', 'default.contains', { words: ['Initech', 'Globex'], operator: 'none' }],
    ['a word of two units', 'a🌊', 'default.contains', { words: ['a🌊'], operator: 'none' }],
    [
      'any letter case',
      'INITECH',
      'default.contains',
      { words: ['initech'], operator: 'none', caseSensitive: false },
    ],
    ['a long word', long, 'default.contains', { words: [long], operator: 'none' }],
    ['an expression', '12-3456', 'default.regexMatch', { rule: '[0-9]{2}-[0-9]{4}', not: true }],
    ['an expression of two units', '🌊🌊!', 'default.regexMatch', { rule: '🌊{2}[!?]', not: true }],
  ] as const)
    for (const path of ['/chat/completions', '/messages'])
      test(`${name}, ${path}`, async () => {
        const guardrail = running(id, parameters);
        assert.equal(guardrail.stream, 'window');
        for (const [front, back] of [
          ['', ''],
          ['Before it, ', '. Behind it, a good deal of text.'],
          [`${match.slice(0, -1)} `, ' 🌊'],
        ] as const) {
          const text = front + match + back;
          const cuttings: string[][] = [[...text], text.match(/[^]{1,3}/g) ?? []];
          for (let one = 0; one <= text.length; one += 1)
            for (let other = one; other <= text.length; other += text.length > 100 ? 13 : 1)
              cuttings.push([text.slice(0, one), text.slice(one, other), text.slice(other)]);
          for (const pieces of cuttings) {
            const { left, isRefused } = await through(guardrail, path, pieces);
            assert.ok(isRefused, `found in ${JSON.stringify(pieces)}`);
            assert.ok(front.startsWith(left), `${JSON.stringify(left)} left of ${JSON.stringify(pieces)}`);
          }
          const clean = `${front}${match.slice(0, -1)}`;
          const passed = await through(guardrail, path, [...clean]);
          assert.deepEqual(passed, { left: clean, isRefused: false });
        }
      });
});
