// Every combination of wire, phase, stream, outcome of the check, `deny` and `on_error`: what is recorded, what the client
// gets, and that nothing is recorded as passed without having been judged.
import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { defineCheck, definePlugin, failed, passed, skipped, Type } from '../../core/pipeline/plugin.ts';
import { providerPlugin, startTestGateway } from '../../tests/kit/gateway-kit.ts';
import { send } from '../../tests/kit/http-kit.ts';
import guardrails from './index.ts';

const marker = 'Zanzibar';
const outcomes = ['passes', 'fails', 'skips', 'breaks', 'waits'] as const;
type Outcome = (typeof outcomes)[number];

/** Texts that the probe has let pass, by phase. */
const passedTexts: Record<'input' | 'output', string[]> = { input: [], output: [] };

const probe = defineCheck({
  id: 'test.probe',
  description: 'Does as it is told.',
  phases: ['input', 'output'],
  schema: Type.Object({ outcome: Type.String() }),
  reach: () => 8,
  create:
    ({ outcome }) =>
    ({ phase, texts }) => {
      if (outcome === 'breaks') throw new Error('no route');
      if (outcome === 'waits') return new Promise(() => undefined);
      const text = texts.map((one) => one.text).join('\n');
      if (outcome === 'skips' || text === '') return skipped('Nothing to look at.');
      if (outcome === 'fails') return failed({ found: text.length });
      passedTexts[phase].push(text);
      return passed();
    },
});
const offering = definePlugin({ name: 'offering', offers: [probe], create: () => ({}) });

interface Wire {
  readonly name: string;
  readonly path: string;
  readonly streamPath?: string;
  readonly body: object;
  /** Its answers hold texts. */
  readonly answers: boolean;
  /** Its answers pass by unread. */
  readonly isUnread?: true;
}

const messages = [{ role: 'user', content: `About ${marker}` }];
const contents = [{ role: 'user', parts: [{ text: `About ${marker}` }] }];
const gemini = '/v1beta/models/mock-gpt';
const wires: readonly Wire[] = [
  { name: 'chat', path: '/v1/chat/completions', body: { model: 'mock-gpt', messages }, answers: true },
  {
    name: 'completions',
    path: '/v1/completions',
    body: { model: 'mock-gpt', prompt: `About ${marker}`, max_tokens: 60 },
    answers: true,
  },
  {
    name: 'responses',
    path: '/v1/responses',
    body: { model: 'mock-gpt', input: `About ${marker}` },
    answers: true,
  },
  {
    name: 'messages',
    path: '/v1/messages',
    body: { model: 'mock-gpt', messages, max_tokens: 60 },
    answers: true,
  },
  {
    name: 'gemini',
    path: `${gemini}:generateContent`,
    streamPath: `${gemini}:streamGenerateContent?alt=sse`,
    body: { contents },
    answers: true,
  },
  {
    name: 'embeddings',
    path: '/v1/embeddings',
    body: { model: 'mock', input: `About ${marker}` },
    answers: false,
  },
  {
    name: 'moderations',
    path: '/v1/moderations',
    body: { model: 'text-moderation-latest', input: `About ${marker}` },
    answers: false,
  },
  {
    name: 'rerank',
    path: '/v1/rerank',
    body: { model: 'mock', query: `About ${marker}`, documents: ['a', 'b'] },
    answers: false,
  },
  {
    name: 'images',
    path: '/v1/images/generations',
    body: { model: 'mock', prompt: `About ${marker}` },
    answers: false,
    isUnread: true,
  },
  {
    name: 'speech',
    path: '/v1/audio/speech',
    body: { model: 'mock', input: `About ${marker}`, voice: 'alloy' },
    answers: false,
    isUnread: true,
  },
];

async function start(t: TestContext) {
  const gateway = await startTestGateway(t, {
    plugins: [guardrails, providerPlugin({ default: 'mock' })],
    checksOf: [offering],
  });
  let asked = 0;
  return async (wire: Wire, guardrail: object, { phase, streamed }: { phase: Phase; streamed: boolean }) => {
    passedTexts.input = [];
    passedTexts.output = [];
    const config = { provider: 'mock', [`${phase}_guardrails`]: [guardrail] };
    const isGemini = wire.name === 'gemini';
    const answer = await send(gateway.url, {
      path: streamed ? (wire.streamPath ?? wire.path) : wire.path,
      headers: { 'x-service-config': JSON.stringify(config) },
      body: { ...wire.body, ...(streamed && !isGemini && { stream: true }) },
    });
    const { facts } = await gateway.untilSettled(++asked);
    const records = facts.verdicts.map(({ verdict }) => verdict);
    return { status: answer.status, text: answer.text, records };
  };
}

type Phase = 'input' | 'output';
type Expected = 'passed' | 'refused' | 'flagged' | 'skipped' | 'failed';

function recordOf(outcome: Outcome, refuses: boolean): Expected {
  if (outcome === 'passes') return 'passed';
  if (outcome === 'skips') return 'skipped';
  return outcome === 'fails' ? (refuses ? 'refused' : 'flagged') : 'failed';
}

/** Whether the guardrail counts as passed. */
function holds(outcome: Outcome, deny: boolean, onError: string | undefined): boolean {
  if (outcome === 'passes' || outcome === 'skips') return true;
  return outcome !== 'fails' && (onError ?? (deny ? 'fail' : 'pass')) === 'pass';
}

for (const wire of wires)
  describe(`guardrails of ${wire.name}`, () => {
    for (const phase of ['input', 'output'] as const)
      for (const stream of wire.answers ? ([undefined, 'hold', 'window', 'observe'] as const) : [undefined])
        test(`${phase}, ${stream ?? 'not streamed'}`, async (t) => {
          const ask = await start(t);
          for (const outcome of outcomes)
            for (const deny of [false, true])
              for (const onError of [undefined, 'pass', 'fail']) {
                if (onError !== undefined && (outcome === 'passes' || outcome === 'skips')) continue;
                const guardrail = {
                  id: 'g',
                  'test.probe': {
                    outcome,
                    timeout_ms: 15,
                    ...(onError !== undefined && { on_error: onError }),
                  },
                  deny,
                  ...(stream !== undefined && { stream }),
                };
                const said = await ask(wire, guardrail, { phase, streamed: stream !== undefined });
                const label = `${outcome}, deny ${deny}, on_error ${onError}: ${said.status} ${said.records.join(' ')}`;
                const hasText = phase === 'input' || wire.answers;
                const isLate = phase === 'output' && stream === 'observe';
                const expected = recordOf(outcome, deny);
                const isUnread = phase === 'output' && wire.isUnread === true;
                const isHeld = isUnread || holds(outcome, deny, onError);
                // Where there is no text, the probe skips unless it breaks; what is not read is not shown to it.
                const isSkipped = isUnread || (!hasText && (outcome === 'passes' || outcome === 'fails'));
                const wanted: Expected = isSkipped ? 'skipped' : expected;
                assert.ok(said.records.includes(wanted), label);
                if (wanted !== 'passed') assert.ok(!said.records.includes('passed'), label);
                else
                  assert.ok(
                    passedTexts[phase].some((text) => text.includes(marker)),
                    `${label}: passed unseen`,
                  );
                const isRefused = deny && !isHeld && !(wanted === 'skipped');
                const isOnTheWay = phase === 'output' && (stream === 'window' || stream === 'observe');
                if (!isOnTheWay) {
                  const status = isRefused ? 446 : isHeld || wanted === 'skipped' ? 200 : 246;
                  assert.equal(said.status, status, `${label}\n${said.text}`);
                  if (isRefused && phase === 'output') assert.ok(!said.text.includes(marker), label);
                } else if (stream === 'window' && isRefused) {
                  assert.match(said.text, /The guardrail \\?"g\\?" refused the answer/, label);
                  assert.deepEqual(said.records.at(-1), wanted, label);
                  assert.ok(!said.text.includes(marker), label);
                } else if (isLate) {
                  assert.equal(said.status, 200, label);
                }
              }
        });
  });
