import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { gzipSync } from 'node:zlib';
import { providerPlugin, startTestGateway, type TestGatewayOptions } from '../../tests/kit/gateway-kit.ts';
import { send, startUpstream } from '../../tests/kit/http-kit.ts';
import { defineCheck, definePlugin, Type } from '../../core/pipeline/plugin.ts';
import { testKey, TestJournal } from '../../tests/kit/plugin-kit.ts';
import auth from '../auth/index.ts';
import cache from '../cache/index.ts';
import guardrails from './index.ts';

const contains = (word: string, more: object = {}) => ({
  'default.contains': { words: [word], operator: 'none' },
  ...more,
});

interface Asked {
  readonly text: string;
  readonly config: object;
  readonly headers?: Readonly<Record<string, string>>;
  readonly stream?: boolean;
  readonly path?: string;
  readonly body?: object;
}

/** A gateway with the mock provider, which repeats what the user says. */
async function guarded(t: TestContext, options: TestGatewayOptions = {}) {
  const gateway = await startTestGateway(t, {
    plugins: [guardrails, providerPlugin({ default: 'mock' })],
    ...options,
  });
  const ask = async ({ text, config, headers, stream, path = '/v1/chat/completions', body }: Asked) => {
    const answer = await send(`${gateway.url}${path}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'x-service-config': JSON.stringify(config),
        ...headers,
      },
      body: JSON.stringify(
        body ?? { model: 'mock-gpt', messages: [{ role: 'user', content: text }], ...(stream && { stream }) },
      ),
    });
    return answer;
  };
  return { gateway, ask };
}

const verdicts = (facts: { readonly verdicts: readonly { name: string; hook: string; verdict: string }[] }) =>
  facts.verdicts.map(({ name, hook, verdict }) => `${name} ${hook} ${verdict}`);

describe('guardrails of a config', () => {
  test('a request that is denied goes to nobody: 446 with the results', async (t) => {
    const { gateway, ask } = await guarded(t);
    const config = {
      provider: 'mock',
      input_guardrails: [contains('Initech', { id: 'no-names', deny: true })],
    };
    const refused = await ask({ text: 'About Initech', config });
    assert.equal(refused.status, 446);
    const { error, hook_results: results } = refused.json();
    assert.equal(error.type, 'hooks_failed');
    assert.match(
      error.message,
      /guardrail "no-names" refused the request: its check "default.contains" failed/,
    );
    assert.equal(results.before_request_hooks[0].verdict, false);
    assert.deepEqual(results.after_request_hooks, []);
    const { facts } = await gateway.untilSettled(1);
    assert.equal(facts.upstreamHost, '');
    assert.deepEqual(verdicts(facts), ['no-names/default.contains attempt refused']);
  });

  test('what passes is answered with 200 and the results', async (t) => {
    const { gateway, ask } = await guarded(t);
    const config = {
      provider: 'mock',
      input_guardrails: [contains('Initech', { deny: true })],
      output_guardrails: [contains('Umbrella', { deny: true })],
    };
    const answer = await ask({ text: 'Hello', config });
    assert.equal(answer.status, 200);
    const { hook_results: results, choices } = answer.json();
    assert.match(choices[0].message.content, /Hello/);
    assert.deepEqual(
      [...results.before_request_hooks, ...results.after_request_hooks].map(({ verdict }) => verdict),
      [true, true],
    );
    assert.deepEqual(verdicts((await gateway.untilSettled(1)).facts), [
      'config.input_guardrails[0]/default.contains attempt passed',
      'config.output_guardrails[0]/default.contains attempted passed',
    ]);
  });

  test('what does not pass and is not denied is marked with 246', async (t) => {
    const { gateway, ask } = await guarded(t);
    const config = { provider: 'mock', input_guardrails: [contains('Initech')] };
    for (const stream of [false, true]) {
      const answer = await ask({ text: 'About Initech', config, stream });
      assert.equal(answer.status, 246);
      assert.match(stream ? said(answer.text) : answer.text, /Initech/);
    }
    assert.deepEqual(verdicts((await gateway.untilSettled(2)).facts), [
      'config.input_guardrails[0]/default.contains attempt flagged',
    ]);
  });

  test('an answer that is denied does not leave, streamed or not', async (t) => {
    const { ask } = await guarded(t);
    const config = { provider: 'mock', output_guardrails: [contains('Initech', { deny: true })] };
    for (const stream of [false, true]) {
      const answer = await ask({ text: 'About Initech', config, stream });
      assert.equal(answer.status, 446, answer.text);
      assert.doesNotMatch(answer.text, /About/);
      assert.equal(answer.json().hook_results.after_request_hooks[0].verdict, false);
    }
  });

  test('a denied answer is tried at the next target', async (t) => {
    const { ask } = await guarded(t);
    const config = {
      strategy: { mode: 'fallback' },
      targets: [
        { provider: 'mock', output_guardrails: [contains('Initech', { deny: true })] },
        { provider: 'mock', override_params: { messages: [{ role: 'user', content: 'Nothing' }] } },
      ],
    };
    const answer = await ask({ text: 'About Initech', config });
    assert.equal(answer.status, 200);
    assert.match(answer.text, /Nothing/);
    assert.equal(answer.headers['x-service-last-used-option-index'], 'config.targets[1]');
  });

  test('a mutator changes what goes out, and what comes back', async (t) => {
    const { ask } = await guarded(t);
    const redact = { 'default.regexReplace': { rule: 'Initech', redactText: '[firm]' } };
    const input = await ask({
      text: 'About Initech',
      config: { provider: 'mock', input_mutators: [redact] },
    });
    assert.match(input.text, /About \[firm\]/);
    assert.equal(input.json().hook_results.before_request_hooks[0].transformed, true);
    for (const stream of [false, true]) {
      const config = { provider: 'mock', output_mutators: [redact] };
      const output = await ask({ text: 'About Initech', config, stream });
      assert.equal(output.status, 200);
      assert.doesNotMatch(stream ? said(output.text) : output.text, /Initech/);
      assert.match(stream ? said(output.text) : output.text, /About \[firm\]/);
    }
  });

  test('an answer from the cache is judged like any other', async (t) => {
    const key = definePlugin({ name: 'caller', capabilities: { provides: ['key'] }, create: () => ({}) });
    const { ask } = await guarded(t, {
      plugins: [key, guardrails, { plugin: cache, options: { mode: 'simple' } }, providerPlugin()],
    });
    const plain = { provider: 'mock' };
    await ask({ text: 'About Initech', config: plain });
    const hit = await ask({ text: 'About Initech', config: plain });
    const denying = { ...plain, output_guardrails: [contains('Initech', { deny: true })] };
    const refused = await ask({ text: 'About Initech', config: denying });
    assert.deepEqual([hit.headers['x-service-cache-status'], refused.status], ['HIT', 446]);
  });

  test('headers ask for guardrails, before those of the config', async (t) => {
    const { ask } = await guarded(t);
    const headers = {
      'x-service-default-input-guardrails': JSON.stringify([contains('Initech', { deny: true })]),
    };
    const refused = await ask({ text: 'About Initech', config: { provider: 'mock' }, headers });
    assert.equal(refused.status, 446);
    const wrong = { 'x-service-default-input-guardrails': '["no-such"]' };
    const unknown = await ask({ text: 'Hello', config: { provider: 'mock' }, headers: wrong });
    assert.equal(unknown.status, 400);
    assert.match(unknown.json().error.message, /there is no guardrail "no-such"/);
  });
});

describe('feedback of guardrails', () => {
  const opinion = {
    on_success: { feedback: { value: 3, weight: 0.5 } },
    on_fail: { feedback: { value: -4 } },
  };
  const cases: readonly [string, object, { text?: string; stream?: boolean }, number[]][] = [
    ['of success', contains('Initech', { id: 'g', ...opinion }), {}, [3]],
    ['of a failure', contains('Hello', { id: 'g', ...opinion }), {}, [-4]],
    ['of one that denies', contains('Hello', { id: 'g', deny: true, ...opinion }), {}, [-4]],
    ['of one that is asynchronous', contains('Hello', { id: 'g', async: true, ...opinion }), {}, [-4]],
    [
      'of a window, once',
      contains('Initech', { id: 'g', stream: 'window', ...opinion }),
      { stream: true },
      [3],
    ],
    ['none where nobody said any', contains('Initech', { id: 'g' }), {}, []],
  ];
  for (const [name, guardrail, { stream = false }, values] of cases)
    test(name, async (t) => {
      const journal = new TestJournal();
      const caller = testKey({ organisationId: 'org-1', workspaceId: 'ws-1' });
      const { gateway, ask } = await guarded(t, {
        journal,
        keys: { wk_caller: caller },
        plugins: [auth, guardrails, providerPlugin({ default: 'mock' })],
      });
      const phase = stream ? 'output_guardrails' : 'input_guardrails';
      const headers = { 'x-service-api-key': 'wk_caller', 'x-service-trace-id': 'trace-7' };
      await ask({ text: 'Hello', config: { provider: 'mock', [phase]: [guardrail] }, stream, headers });
      await gateway.untilSettled(1);
      const rows = journal.rows<Readonly<Record<string, unknown>>>('feedback');
      assert.deepEqual(
        rows.map((row) => row['value']),
        values,
      );
      for (const row of rows) {
        assert.deepEqual(
          [row['trace_id'], row['workspace_id'], row['api_key_id']],
          ['trace-7', 'ws-1', caller.id],
        );
        assert.equal(JSON.parse(String(row['metadata'])).guardrail, 'g');
      }
    });
});

describe('a guardrail that cannot run is refused', () => {
  for (const [what, guardrail, message] of [
    ['an unknown check', { 'default.contain': { words: ['a'] } }, /did you mean "default.contains"/],
    ['parameters that do not fit', { 'default.contains': { word: ['a'] } }, /config\.input_guardrails\[0\]/],
    ['a pattern that the engine cannot run', { 'default.regexMatch': { rule: '(a)\\1' } }, /regexMatch/],
    ['an unknown slug', 'no-such', /there is no guardrail "no-such"/],
    ['a window of any length', { 'default.wordCount': { maxWords: 3 }, deny: true, stream: 'window' }, /./],
  ] as const) {
    test(what, async (t) => {
      const { ask } = await guarded(t);
      const key = what.startsWith('a window') ? 'output_guardrails' : 'input_guardrails';
      const refused = await ask({ text: 'a', config: { provider: 'mock', [key]: [guardrail] } });
      assert.equal(refused.status, 400);
      assert.match(refused.json().error.message, message);
    });
  }

  test('by a pipeline that runs none', async (t) => {
    const { ask } = await guarded(t, { plugins: [providerPlugin({ default: 'mock' })] });
    const config = { provider: 'mock', input_guardrails: [contains('a')] };
    const refused = await ask({ text: 'b', config });
    assert.equal(refused.status, 400);
    assert.match(refused.json().error.message, /Add the plugin "guardrails"/);
  });
});

describe('a check that cannot judge', () => {
  const unsteady = defineCheck({
    id: 'test.unsteady',
    description: 'Breaks or waits.',
    phases: ['input', 'output'],
    schema: Type.Object({ waits: Type.Optional(Type.Boolean()) }),
    create:
      ({ waits }) =>
      () =>
        waits === true ? new Promise(() => undefined) : Promise.reject(new Error('no route')),
  });
  const offering = definePlugin({ name: 'offering', offers: [unsteady], create: () => ({}) });

  for (const waits of [false, true])
    for (const [deny, onError, status] of [
      [true, undefined, 446],
      [false, undefined, 200],
      [true, 'pass', 200],
      [false, 'fail', 246],
    ] as const)
      test(`${waits ? 'out of time' : 'broken'}, deny ${deny}, on_error ${onError}: ${status}`, async (t) => {
        const { gateway, ask } = await guarded(t, { checksOf: [offering] });
        const parameters = { waits, timeout_ms: 30, ...(onError !== undefined && { on_error: onError }) };
        const config = { provider: 'mock', input_guardrails: [{ 'test.unsteady': parameters, deny }] };
        const answer = await ask({ text: 'a', config });
        assert.equal(answer.status, status, answer.text);
        const [shown] = answer.json().hook_results.before_request_hooks[0].checks;
        assert.match(shown.error.message, waits ? /within 30 ms/ : /no route/);
        assert.deepEqual(verdicts((await gateway.untilSettled(1)).facts), [
          'config.input_guardrails[0]/test.unsteady attempt failed',
        ]);
      });
});

describe('streams', () => {
  test('a window finds a word however the stream is cut, and ends the stream', async (t) => {
    for (const tokens of [1, 2, 3, 7]) {
      const { gateway, ask } = await guarded(t, {
        providers: { cut: { base_url: `mock:?chunk_tokens=${tokens}`, credentials: 'none' } },
      });
      const config = {
        provider: '@cut',
        output_guardrails: [contains('Initech', { id: 'w', deny: true, stream: 'window' })],
      };
      const answer = await ask({ text: 'Something about Initech and more', config, stream: true });
      assert.equal(answer.status, 200);
      assert.doesNotMatch(said(answer.text), /Init/);
      assert.match(answer.text, /hooks_failed/);
      const { facts } = await gateway.untilSettled(1);
      assert.ok(verdicts(facts).includes('w/default.contains stream refused'));
    }
  });

  test('a window over many pieces has one record for each check, which says the worst', async (t) => {
    const { gateway, ask } = await guarded(t, {
      providers: { cut: { base_url: 'mock:?chunk_tokens=1', credentials: 'none' } },
    });
    const config = {
      provider: '@cut',
      output_guardrails: [contains('Initech', { id: 'w', deny: true, stream: 'window' })],
    };
    const long = 'word '.repeat(60);
    await ask({ text: long, config, stream: true });
    await ask({ text: `${long} Initech`, config, stream: true });
    await gateway.untilSettled(2);
    assert.deepEqual(
      gateway.settled.map(({ facts }) => verdicts(facts)),
      [['w/default.contains stream passed'], ['w/default.contains stream refused']],
    );
  });

  test('a window lets a clean stream out whole', async (t) => {
    const { ask } = await guarded(t);
    const config = {
      provider: 'mock',
      output_guardrails: [contains('Initech', { deny: true, stream: 'window' })],
    };
    const plain = await ask({ text: 'Tell me all of it', config: { provider: 'mock' }, stream: true });
    const answer = await ask({ text: 'Tell me all of it', config, stream: true });
    assert.equal(said(answer.text), said(plain.text));
    assert.match(answer.text, /\[DONE\]/);
  });

  describe('whose client wants more than its wire has are told the results', () => {
    const loose = { 'x-service-strict-open-ai-compliance': 'false' };
    const messages = [{ role: 'user', content: 'About Initech' }];
    const wires: readonly [string, string, object, string | undefined][] = [
      ['chat', '/v1/chat/completions', { messages }, ''],
      ['completions', '/v1/completions', { prompt: 'About Initech' }, ''],
      ['messages', '/v1/messages', { messages, max_tokens: 60 }, 'event: hook_results\n'],
      ['responses', '/v1/responses', { input: 'About Initech' }, undefined],
    ];
    for (const [name, path, members, event] of wires)
      for (const stream of ['hold', 'window', 'observe', undefined] as const)
        test(`${name}, ${stream ?? 'of the request alone'}`, async (t) => {
          const { ask } = await guarded(t);
          const body = { model: 'mock-gpt', stream: true, ...members };
          const config = {
            provider: 'mock',
            input_guardrails: [contains('Umbrella', { id: 'in' })],
            ...(stream !== undefined && { output_guardrails: [contains('Umbrella', { id: 'out', stream })] }),
          };
          const [plain, strict, told] = [
            await ask({ text: '', config: { provider: 'mock' }, path, body, headers: loose }),
            await ask({ text: '', config, path, body }),
            await ask({ text: '', config, path, body, headers: loose }),
          ];
          const [first, rest] = told.text.startsWith(`${event}data: {"hook_results"`)
            ? [
                told.text.slice(0, told.text.indexOf('\n\n') + 2),
                told.text.slice(told.text.indexOf('\n\n') + 2),
              ]
            : ['', told.text];
          const at = rest.lastIndexOf(`${event}data: {"hook_results"`);
          const [middle, last] =
            at < 0 || event === undefined ? [rest, ''] : [rest.slice(0, at), rest.slice(at)];
          const shape = (text: string) =>
            text.replace(/[\w-]{20,}|"(created|created_at|completed_at)":\d+/g, '…');
          assert.equal(shape(middle), shape(strict.text));
          // A window cuts the text elsewhere.
          if (stream !== 'window') assert.equal(shape(strict.text), shape(plain.text));
          if (event === undefined) return assert.doesNotMatch(told.text, /hook_results/);
          const results = (frame: string) => JSON.parse(frame.slice(`${event}data: `.length)).hook_results;
          assert.deepEqual(Object.keys(results(first)), ['before_request_hooks']);
          assert.equal(results(first).before_request_hooks[0].id, 'in');
          if (stream === undefined) assert.equal(last, '');
          else assert.equal(results(last).after_request_hooks[0].id, 'out');
        });

    test('a compressed stream is told in clear', async (t) => {
      const gzipped = gzipSync('data: {"choices":[]}\n\ndata: [DONE]\n\n');
      const upstream = await startUpstream(t, (_request, response) => {
        const headers = { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' };
        response.writeHead(200, { ...headers, 'content-length': gzipped.length }).end(gzipped);
      });
      const { ask } = await guarded(t, {
        providers: { up: { base_url: upstream.url, api_key: 'k' } },
      });
      const config = { provider: '@up', input_guardrails: [contains('Umbrella')] };
      const answer = await ask({ text: 'a', config, stream: true, headers: loose });
      assert.match(
        answer.text,
        /^data: \{"hook_results".*\n\ndata: \{"choices":\[\]\}\n\ndata: \[DONE\]\n\n$/,
      );
    });
  });

  test('an observer is told of in the log, and changes no byte', async (t) => {
    const { gateway, ask } = await guarded(t);
    const config = { provider: 'mock', output_guardrails: [contains('Initech', { id: 'o' })] };
    const answer = await ask({ text: 'About Initech', config, stream: true });
    assert.equal(answer.status, 200);
    assert.match(said(answer.text), /Initech/);
    assert.deepEqual(verdicts((await gateway.untilSettled(1)).facts), ['o/default.contains stream flagged']);
  });
});

/** The text of a streamed chat answer. */
function said(text: string): string {
  return [...text.matchAll(/^data: (\{.*\})$/gm)]
    .map(([, json = '']) => JSON.parse(json).choices?.[0]?.delta?.content ?? '')
    .join('');
}
