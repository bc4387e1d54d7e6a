import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { delta, done, finish, frame, role, said } from '../../kit/chat-stream-kit.ts';
import { messageError, messageEvents, messageOf } from '../../kit/messages-stream-kit.ts';
import { providerPlugin } from '../../kit/gateway-kit.ts';
import { startPlanGateway, type Asked, type ScriptedProvider } from '../../kit/plan-kit.ts';
import * as up from '../../kit/upstream-scenes.ts';
import type { UpstreamScene } from '../../kit/upstream-scenes.ts';

const error = frame({ error: { message: 'overloaded', type: 'server_error' } });
const milliseconds = fc.integer({ min: 0, max: 900 });

/** Everything that a provider may do, good and bad; what it says names it. */
function scenes(name: ScriptedProvider, isStreamed: boolean): fc.Arbitrary<UpstreamScene> {
  const text = `from ${name}`;
  const isClaude = name === 'claude';
  const faults: UpstreamScene[] = [
    ...[up.refuses(), up.neverConnects(), up.resetsBeforeHead(), up.resetsBeforeHead({ reused: true })],
    ...[up.silent(), up.stallsAfterHead(), up.resetsInBody(), up.tooShort()],
    ...[400, 404, 429, 500, 503].map((status) => up.fails(status)),
    up.fails(429, ['retry-after', '2']),
  ];
  const whole = isClaude ? messageOf(text) : { choices: [{ index: 0, message: { content: text } }] };
  const events = isClaude ? messageEvents(text) : [role, delta(text), finish, done];
  const answer = isStreamed
    ? streams(events, isClaude ? messageError : error)
    : fc.constantFrom(up.answers(200, whole), up.slowly(10, JSON.stringify(whole)));
  const now = fc.oneof(answer, answer, fc.constantFrom(...faults));
  return fc.oneof(
    now,
    fc.tuple(milliseconds, now).map(([ms, scene]) => up.after(ms, scene)),
  );
}

/** A stream that is whole, breaks, stops or turns into an error. */
function streams(events: readonly string[], failure: string): fc.Arbitrary<UpstreamScene> {
  const said = fc.integer({ min: 0, max: events.length - 1 }).map((count) => events.slice(0, count));
  const last = fc.constantFrom<'close' | 'reset' | 'hang'>('close', 'reset', 'hang');
  return fc.oneof(
    milliseconds.map((ms) => up.streams(events, ms)),
    fc.tuple(milliseconds, said, last).map(([ms, some, how]) => up.streams(some, ms, how)),
    fc.tuple(milliseconds, said).map(([ms, some]) => up.streams([...some, failure], ms)),
  );
}

const settings = fc.record(
  {
    retry: fc.record({ attempts: fc.integer({ min: 0, max: 3 }), use_retry_after_headers: fc.boolean() }),
    request_timeout: fc.integer({ min: 1, max: 3000 }),
    first_token_timeout: fc.integer({ min: 1, max: 3000 }),
    idle_timeout: fc.integer({ min: 1, max: 1000 }),
  },
  { requiredKeys: [] },
);

const configs = fc
  .record({
    own: settings,
    targets: fc.tuple(settings, settings, settings),
    mode: fc.constantFrom('fallback', 'loadbalance', 'single', 'least-latency', 'round-robin'),
    hedge: fc.option(fc.record({ after_ms: fc.integer({ min: 1, max: 900 }), max: fc.constantFrom(1, 2) })),
    breaks: fc.boolean(),
  })
  .map(({ own, targets: [a, b, claude], mode, hedge, breaks }) => ({
    ...own,
    ...(hedge === null ? {} : { hedge }),
    ...(breaks ? { cb_config: { failure_threshold: 1, cooldown_interval: 30_000 } } : {}),
    strategy: { mode },
    targets: [
      { provider: '@a', ...a },
      {
        strategy: { mode: 'fallback' },
        targets: [
          { provider: '@claude', override_params: { max_tokens: 9 }, ...claude },
          { provider: '@b', ...b },
        ],
      },
    ],
  }));

const cases = fc.boolean().chain((stream) =>
  fc.record({
    stream: fc.constant(stream),
    a: fc.array(scenes('a', stream), { minLength: 1, maxLength: 3 }),
    b: fc.array(scenes('b', stream), { minLength: 1, maxLength: 3 }),
    claude: fc.array(scenes('claude', stream), { minLength: 1, maxLength: 3 }),
    config: configs,
    leavesAfter: fc.option(fc.integer({ min: 0, max: 5000 })),
  }),
);

/** One answer of one provider, or an error: never both, never two, never half an answer that looks whole. */
function assertOneAnswer(answer: Asked, stream: boolean): void {
  const { status, text, complete } = answer;
  assert.ok(status >= 200, `status ${status}`);
  if (!stream || status !== 200) {
    assert.equal(complete, true, text);
    const { error: told, choices } = answer.json();
    if (status === 200) assert.match(choices[0].message.content, /^from (?:a|b|claude)$/);
    else assert.equal(typeof told.message, 'string');
    return;
  }
  const isWhole = text.endsWith(done);
  if (isWhole) assert.match(said(text), /^from (?:a|b|claude)$/);
  else assert.ok(['', 'from a', 'from b', 'from claude'].includes(said(text)), text);
  assert.equal(text.split('[DONE]').length - 1, isWhole ? 1 : 0, text);
  assert.ok(isWhole || text.includes('"error"'), `it ends as nothing: ${text}`);
}

describe('whatever providers do, however a config is written, whenever the client leaves', () => {
  test('there is one answer or one error, and nothing is left', async (t) => {
    const bounds = { connect_timeout_ms: 5000, head_timeout_ms: 20_000, idle_timeout_ms: 10_000 };
    const kit = await startPlanGateway(t, {}, { plugins: [providerPlugin(bounds)] });
    let run = 0;
    await fc.assert(
      fc.asyncProperty(cases, async ({ stream, a, b, claude, config, leavesAfter }) => {
        kit.transport.script('http://a.test', ...a);
        kit.transport.script('http://b.test', ...b);
        kit.transport.script('http://claude.test', ...claude);
        run += 1;
        // A name of its own: what breakers and latencies learn belongs to one run.
        const one = await kit.ask({ name: `run ${run}`, ...config }, { body: { stream } });
        if (leavesAfter !== null) {
          await kit.clock.pass(leavesAfter);
          one.abort();
        }
        const answer = leavesAfter === null ? await one.finish() : undefined;
        const { outcome, facts } = await one.settled();
        await kit.assertNothingLeft();
        const { length } = kit.transport.calls;
        await kit.clock.pass(100_000);
        assert.equal(kit.transport.calls.length, length, 'nobody is called afterwards');
        assert.ok(facts.attempts > 0);
        if (answer !== undefined) assertOneAnswer(answer, stream);
        else if (outcome.kind !== 'completed')
          assert.ok(['cancelled', 'failed', 'refused'].includes(outcome.kind));
      }),
      { numRuns: 120 },
    );
    assert.deepEqual([...new Set(kit.called())].sort(), ['a', 'b', 'claude'], 'all of them had their turn');
  });
});
