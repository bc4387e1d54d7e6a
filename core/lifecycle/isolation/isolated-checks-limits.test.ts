// A check in a thread of its own that loops, needs too much memory or ends its thread has not passed, and nothing else ends.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { eventually } from '../../../tests/kit/process-kit.ts';
import { endings, loaded, serving, usual } from './isolated-checks.test-support.ts';

/** A plugin with a check of this body, where `subject` and `state` are known. */
const offering = (body: string, more = '', hooks = ''): string => `
const state = { calls: 0, requests: 0 };
const theirs = defineCheck({
  id: 'acme.theirs',
  description: 'Theirs.',
  phases: ['input', 'output'],
  timeoutMs: 20_000,
  schema: Type.Object({ word: Type.Optional(Type.String()) }, { additionalProperties: false }),
  ${more}
  create: ({ word }, scope) => async (subject) => { ${body} },
});
export default definePlugin({
  name: 'theirs',
  offers: [theirs],
  create: () => ({ ${hooks} }),
});`;

const input = (parameters: object = {}, more: object = {}) => ({
  input_guardrails: [{ 'acme.theirs': parameters, ...more }],
});

describe('a check in a thread of its own', () => {
  for (const [what, code, limits, reason] of endings)
    test(`${what} ends the thread: the check is recorded as broken, on_error decides, and the next call is judged`, async (t) => {
      const source = offering(
        `if (subject.text === 'break') { ${code} } return passed({ calls: ++state.calls });`,
      );
      const { gateway, ask } = await serving(t, await loaded(t, source, limits));
      const judged = async () => (await ask(input({}, { deny: true }), 'fine')).records.join();
      assert.equal(await judged(), 'attempt passed');
      const broken = ask(input({}, { deny: true }), 'break');
      // The gateway goes on meanwhile.
      assert.equal((await ask({}, 'unjudged')).status, 200);
      const refused = await broken;
      assert.equal(refused.status, 446);
      assert.match(refused.text, /"erroredChecks"|its thread|held its thread|could not judge/);
      assert.equal(
        gateway.settled.find(({ outcome }) => outcome.status === 446)?.facts.verdicts[0]?.verdict,
        'failed',
      );
      await eventually(async () => (await judged()) === 'attempt passed' || undefined);
      const open = await ask(input({ on_error: 'pass' }, { deny: true }), 'break');
      assert.deepEqual([open.status, open.records], [200, ['attempt failed']]);
      await eventually(async () => (await judged()) === 'attempt passed' || undefined);
      assert.equal(gateway.metrics.get(`weir_plugin_thread_stops_total{plugin=theirs,reason=${reason}}`), 2);
    });

  test('no call is passed while the thread is started again', async (t) => {
    const source = offering(`if (subject.text === 'break') process.exit(1); return passed();`);
    const { ask } = await serving(t, await loaded(t, source, usual));
    for (let round = 0; round < 3; round += 1) {
      const said = await Promise.all(
        ['fine', 'break', 'fine', 'fine'].map((text) => ask(input({}, { deny: true }), text)),
      );
      const late = await ask(input({}, { deny: true }), 'fine');
      for (const { status, records } of [...said, late])
        assert.ok(
          (status === 446 && records.join() === 'attempt failed') ||
            (status === 200 && records.join() === 'attempt passed'),
          `${status} ${records.join()}`,
        );
      assert.equal(said[1]?.status, 446);
      await eventually(
        async () => (await ask(input({}, { deny: true }), 'fine')).status === 200 || undefined,
      );
    }
  });

  test('hears that it is out of time, and its answer is not waited for', async (t) => {
    const source = offering(
      `await new Promise((resolve) => subject.signal.addEventListener('abort', resolve)); scope.log.info('aborted', { is: subject.signal.aborted }); return passed();`,
    );
    const { gateway, ask } = await serving(t, await loaded(t, source, usual));
    const said = await ask(input({ timeout_ms: 50 }, { deny: true }));
    assert.deepEqual([said.status, said.records], [446, ['attempt failed']]);
    const heard = await eventually(() => gateway.lines.find(({ message }) => message === 'aborted'));
    assert.deepEqual([heard.fields['is'], heard.fields['plugin']], [true, 'theirs']);
  });

  test('shares its thread, and what it keeps there, with the hooks of the plugin', async (t) => {
    const source = offering(
      'return failed({ requests: state.requests, calls: ++state.calls });',
      '',
      'request() { state.requests += 1; }',
    );
    const { ask } = await serving(t, await loaded(t, source, usual));
    const data = async (config: object) => (await ask(config)).results;
    const of = (calls: number, requests: number) => [
      { verdict: false, data: { requests, calls }, fault: null, transformed: false },
    ];
    assert.deepEqual(await data(input({ word: 'one' })), of(1, 1));
    assert.deepEqual(await data(input({ word: 'two' })), of(2, 2));
    assert.deepEqual(await data(input({ word: 'one' })), of(3, 3));
  });

  test('sees the request beside each piece of a stream', async (t) => {
    const source = offering(
      `scope.log.info('piece', { of: subject.request.text, json: subject.request.json.messages.length }); return passed();`,
      'reach: () => 2,',
    );
    const { gateway, ask } = await serving(t, await loaded(t, source, usual));
    const config = { output_guardrails: [{ 'acme.theirs': {}, stream: 'window', deny: true }] };
    const said = await ask(config, 'one two three four five six seven eight nine', { stream: true });
    assert.match(said.text, /\[DONE\]/);
    const pieces = gateway.lines.filter(({ message }) => message === 'piece');
    assert.ok(pieces.length > 3, String(pieces.length));
    for (const { fields } of pieces)
      assert.deepEqual([fields['of'], fields['json']], ['one two three four five six seven eight nine', 1]);
  });

  test('parameters on which its own check loops are refused where they are named, and the gateway goes on', async (t) => {
    const source = offering(
      'return passed();',
      `check: ({ word }) => { if (word === 'loop') for (;;); if (word === 'odd') return 7; return []; },`,
    );
    const { ask } = await serving(t, await loaded(t, source, usual));
    const looping = ask(input({ word: 'loop' }));
    assert.equal((await ask({})).status, 200);
    const refused = await looping;
    assert.equal(refused.status, 503);
    assert.match(
      refused.text,
      /the check \\"acme\.theirs\\" could not look at its parameters: a call held its thread for more than 300 ms/,
    );
    await eventually(async () => (await ask(input({ word: 'fine' }))).status === 200 || undefined);
    assert.match((await ask(input({ word: 'odd' }))).text, /its check must return a list of/);
  });

  test('what a thread does not have breaks the check, with a sentence', async (t) => {
    const source = offering('return passed({ is: scope.features.isOn("guardrails") });');
    const { ask } = await serving(t, await loaded(t, source, usual));
    const said = await ask(input({}, { deny: true }));
    assert.deepEqual([said.status, said.records], [446, ['attempt failed']]);
    assert.match(said.text, /scope\.features does not reach a plugin that runs in a thread of its own/);
  });
});
