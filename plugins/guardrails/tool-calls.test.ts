import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { providerPlugin, startTestGateway, type TestGatewayOptions } from '../../tests/kit/gateway-kit.ts';
import { send } from '../../tests/kit/http-kit.ts';
import { TestContext as RequestOf, testKey, TestJournal, testScope } from '../../tests/kit/plugin-kit.ts';
import { toolsPlugin } from '../../tests/kit/tool-calls-kit.ts';
import { defineCheck, definePlugin, defineKey, passed, Type } from '../../core/pipeline/plugin.ts';
import type { JsonObject, JsonValue } from '../../core/pipeline/plugin.ts';
import { toolCallGates } from '../../core/pipeline/tool-calls.ts';
import type { DirectoryDefaults } from '../../core/ports/directory.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import addPrefix from '../add-prefix/index.ts';
import auth from '../auth/index.ts';
import inlineImage from '../inline-image/index.ts';
import requestParameters from '../request-parameters/index.ts';
import guardrails from './index.ts';

const contains = (word: string, more: object = {}) => ({
  'default.contains': { words: [word], operator: 'none' },
  ...more,
});
const redact = { 'default.regexReplace': { rule: 'Initech', redactText: '[firm]' } };

interface Asked {
  readonly tool?: string;
  readonly given?: JsonObject;
  readonly headers?: Readonly<Record<string, string>>;
  readonly server?: string;
}

type Hooks = { readonly id: string; readonly verdict: boolean; readonly skipped: boolean }[];

/** A gateway whose servers have the tool `echo`, which returns its arguments, and remember what they are sent. */
async function guarded(
  t: TestContext,
  servers: Parameters<typeof toolsPlugin>[1] = {},
  options: TestGatewayOptions = {},
) {
  const sent: JsonObject[] = [];
  const tools = {
    echo(given: JsonObject): JsonValue {
      sent.push(given);
      const text = typeof given['text'] === 'string' ? given['text'] : '';
      return { content: [{ type: 'text', text: `said ${text}` }], structuredContent: given };
    },
    list: (): JsonValue => ({ content: [{ type: 'text', text: 'Initech, Umbrella' }], _meta: { page: 2 } }),
  };
  const gateway = await startTestGateway(t, {
    plugins: [guardrails, toolsPlugin(tools, servers)],
    ...options,
  });
  const post = (server: string, body: unknown, headers: Readonly<Record<string, string>> = {}) =>
    send(`${gateway.url}/v1/${server}/mcp`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    });
  const message = (tool: string, given: JsonObject, id = 1) => ({
    ...{ jsonrpc: '2.0', id, method: 'tools/call' },
    params: { name: tool, arguments: given },
  });
  const call = async ({ tool = 'echo', given = {}, headers, server = 'tickets' }: Asked) => {
    const answer = await post(server, message(tool, given), headers);
    const { result, error } = answer.json();
    const results = result?._meta?.hook_results ?? error?.data.hook_results;
    return {
      status: answer.status,
      result,
      error: error as { message: string; data: { code: string } } | undefined,
      before: (results?.before_request_hooks ?? []) as Hooks,
      after: (results?.after_request_hooks ?? []) as Hooks,
    };
  };
  const verdicts = async (count = 1) =>
    (await gateway.untilSettled(count)).facts.verdicts.map(
      ({ name, hook, verdict }) => `${name} ${hook} ${verdict}`,
    );
  return { gateway, call, post, message, sent, verdicts };
}

const ofServer = (input: object[], output: object[] = []) => ({
  tickets: {
    guardrails: {
      input_guardrails: input as JsonObject[],
      output_guardrails: output as JsonObject[],
    },
  },
});

describe('guardrails of calls of tools', () => {
  test('arguments that are denied are sent to no server: 446 with the results', async (t) => {
    const denying = contains('Initech', { id: 'no-names', deny: true });
    const { call, sent, verdicts } = await guarded(t, ofServer([denying]));
    const { status, error, before, after } = await call({ given: { to: { firm: ['Initech'] } } });
    assert.equal(status, 446);
    assert.equal(error?.data.code, 'hooks_failed');
    assert.match(error.message, /guardrail "no-names" refused the call: its check "default.contains" failed/);
    assert.deepEqual([before.map(({ verdict }) => verdict), after, sent], [[false], [], []]);
    assert.deepEqual(await verdicts(), ['no-names/default.contains attempt refused']);
  });

  test('a result that is denied does not leave', async (t) => {
    const { call, verdicts } = await guarded(
      t,
      ofServer([], [contains('Umbrella', { id: 'g', deny: true })]),
    );
    const { status, error, after, result } = await call({ tool: 'list' });
    assert.deepEqual([status, result], [446, undefined]);
    assert.match(error?.message ?? '', /guardrail "g" refused the result/);
    assert.doesNotMatch(JSON.stringify(error), /Initech/);
    assert.deepEqual(
      after.map(({ verdict }) => verdict),
      [false],
    );
    assert.deepEqual(await verdicts(), ['g/default.contains attempted refused']);
  });

  test('what passes, and what fails without being denied, leaves with the results in its _meta', async (t) => {
    const { call, verdicts } = await guarded(
      t,
      ofServer([contains('Initech', { id: 'in', deny: true })], [contains('Umbrella', { id: 'out' })]),
    );
    const { status, result, before, after } = await call({ tool: 'list' });
    assert.equal(status, 200);
    assert.equal(result.content[0].text, 'Initech, Umbrella');
    assert.equal(result._meta.page, 2, 'the server’s own stays');
    assert.deepEqual([before[0]?.verdict, after[0]?.verdict], [true, false]);
    assert.deepEqual(await verdicts(), [
      'in/default.contains attempt skipped',
      'out/default.contains attempted flagged',
    ]);
  });

  test('a mutator changes what the server gets, and what comes back', async (t) => {
    const { call, sent } = await guarded(t, ofServer([redact], [contains('[firm]'), redact]));
    const { result, before } = await call({ given: { text: 'Initech', deep: [{ Initech: 1 }] } });
    assert.deepEqual(sent, [{ text: '[firm]', deep: [{ '[firm]': 1 }] }]);
    assert.deepEqual((before[0] as { transformed?: boolean }).transformed, true);
    assert.equal(result.content[0].text, 'said [firm]');
    const listed = await call({ tool: 'list' });
    assert.equal(listed.result.content[0].text, '[firm], Umbrella');
  });

  test('are those of the server alone where nothing else asks for any', async (t) => {
    const { call } = await guarded(t, ofServer([contains('Initech', { deny: true })]));
    const given = { text: 'Initech' };
    assert.equal((await call({ given })).status, 446);
    const other = await call({ given, server: 'wiki' });
    assert.deepEqual([other.status, other.result._meta], [200, undefined]);
  });

  test('headers ask for them, for requests that hold calls', async (t) => {
    const { call } = await guarded(t);
    const asking = (list: unknown) => ({ 'x-service-default-input-guardrails': JSON.stringify(list) });
    const headers = asking([contains('Initech', { deny: true })]);
    assert.equal((await call({ given: { text: 'Initech' }, headers })).status, 446);
    assert.equal((await call({ given: { text: 'Umbrella' }, headers })).status, 200);
    const wrong = await call({ headers: asking(['no-such']) });
    assert.equal(wrong.status, 400);
    assert.match(wrong.error?.message ?? '', /there is no guardrail "no-such"/);
  });

  test('each call of a batch is judged by itself', async (t) => {
    const { post, message, sent } = await guarded(
      t,
      ofServer([contains('Initech', { id: 'g', deny: true })]),
    );
    const answers = (
      await post('tickets', [
        message('echo', { text: 'one' }, 1),
        message('echo', { text: 'Initech' }, 2),
        message('echo', { text: 'three' }, 3),
      ])
    ).json();
    assert.deepEqual(
      answers.map((one: { error?: { data: { code: string } } }) => one.error?.data.code),
      [undefined, 'hooks_failed', undefined],
    );
    assert.deepEqual(sent, [{ text: 'one' }, { text: 'three' }]);
    assert.equal(answers[2].result._meta.hook_results.before_request_hooks.length, 1);
  });

  test('one that runs beside the call changes no answer, and is logged', async (t) => {
    const { call, verdicts } = await guarded(t, ofServer([contains('Initech', { id: 'g', async: true })]));
    const { status, result } = await call({ given: { text: 'Initech' } });
    assert.deepEqual([status, result._meta], [200, undefined]);
    assert.deepEqual(await verdicts(), ['g/default.contains attempt flagged']);
  });

  test('give their feedback for each call', async (t) => {
    const journal = new TestJournal();
    const opinion = { on_success: { feedback: { value: 3 } }, on_fail: { feedback: { value: -4 } } };
    const judging = contains('Initech', { id: 'g', deny: true, ...opinion });
    const tools = toolsPlugin({}, ofServer([judging], [contains('x', { id: 'out', ...opinion })]));
    const { call } = await guarded(
      t,
      {},
      {
        plugins: [auth, guardrails, tools],
        keys: { 'wk-a': testKey() },
        journal,
      },
    );
    const headers = { 'x-service-api-key': 'wk-a' };
    await call({ given: { text: 'Initech' }, headers });
    await call({ given: { text: 'fine' }, headers });
    const values = journal.rows<{ value: number; metadata: string }>('feedback');
    assert.deepEqual(
      values.map(({ value, metadata }) => [value, JSON.parse(metadata).guardrail]),
      [
        [-4, 'g'],
        [3, 'g'],
      ],
      'one that had nothing to judge gives none',
    );
  });

  test('without any the call passes as it is, and its result need not be held', async (t) => {
    const seen: (boolean | undefined)[] = [];
    const looking = definePlugin({
      name: 'looking',
      create: () => ({
        request(context) {
          const call = { server: 's', tool: 'a', arguments: {} };
          seen.push(...toolCallGates(context).map((gate) => gate.wantsResult?.(call)));
        },
      }),
    });
    const { call } = await guarded(t, {}, { plugins: [guardrails, looking, toolsPlugin({})] });
    assert.deepEqual((await call({ given: {} })).result, { content: [] });
    const headers = { 'x-service-default-output-guardrails': JSON.stringify([contains('a')]) };
    await call({ given: {}, headers });
    assert.deepEqual(seen, [false, true]);
  });

  test('a request to a model has no gate', async () => {
    const hooks = await guardrails.create({}, testScope().scope);
    const context = new RequestOf({ body: { model: 'm', messages: [] } });
    await hooks.request?.(context);
    assert.deepEqual(toolCallGates(context), []);
  });
});

describe('checks of calls of tools', () => {
  test('see the server as the provider, the tool as the model, and each call by itself', async (t) => {
    const key = defineKey<{ count: number }>('seen');
    const seen: unknown[] = [];
    const seeing = defineCheck({
      id: 'test.seeing',
      description: 'Keeps what it sees.',
      phases: ['input', 'output'],
      schema: Type.Object({}),
      create: () => (subject) => {
        const { phase, endpoint, provider, model, text, request } = subject;
        const once = subject.once(key, () => ({ count: 0 }));
        once.count += 1;
        seen.push({ phase, endpoint, provider, model, text, of: request.json, count: once.count });
        return passed();
      },
    });
    const offering = definePlugin({ name: 'offering', offers: [seeing], create: () => ({}) });
    const { post, message } = await guarded(t, ofServer([{ 'test.seeing': {} }], [{ 'test.seeing': {} }]), {
      checksOf: [offering],
    });
    await post('tickets', [message('echo', { text: 'a' }, 1), message('echo', { text: 'b' }, 2)]);
    const plain = { endpoint: 'mcp', provider: 'tickets', model: 'echo' };
    assert.deepEqual(
      seen,
      ['a', 'b'].flatMap((text) => [
        { phase: 'input', ...plain, text, of: { text }, count: 1 },
        { phase: 'output', ...plain, text: `said ${text}`, of: { text }, count: 2 },
      ]),
    );
  });

  const chatOnly: readonly (readonly [string, object])[] = [
    ['default.modelWhitelist', { models: ['gpt-4o'] }],
    ['default.modelRules', { rules: { defaults: ['gpt-4o'] } }],
    ['default.requestParametersCheck', { params: { allowedKeys: ['model'] } }],
    ['default.addPrefix', { prefix: 'Be kind.' }],
    ['default.inlineImage', {}],
  ];
  for (const [id, parameters] of chatOnly)
    test(`that are about requests to models say that they were skipped (${id})`, async (t) => {
      const { call, sent } = await guarded(t, ofServer([{ [id]: parameters, deny: true }]), {
        checksOf: [addPrefix, inlineImage, requestParameters],
      });
      const given = { messages: [{ role: 'user', content: 'hello' }], model: 'other' };
      const { status, before } = await call({ given });
      assert.deepEqual([status, before[0]?.verdict, before[0]?.skipped, sent], [200, true, true, [given]]);
    });

  test('of JSON look at the arguments as a whole, and at the structured content', async (t) => {
    const schema = (wanted: string) => ({
      'default.jsonSchema': { schema: { type: 'object', required: [wanted] } },
      deny: true,
    });
    const { call } = await guarded(t, ofServer([schema('id')], [schema('id')]));
    assert.equal((await call({ given: { id: 5 } })).status, 200);
    const { status, before } = await call({ given: { text: 'x' } });
    assert.deepEqual([status, before[0]?.verdict], [446, false]);
  });

  test('that break refuse the call where the guardrail denies, and let it pass where it does not', async (t) => {
    const broken = (deny: boolean) => ({
      id: 'b',
      checks: [{ id: 'local.classifier', parameters: {} }],
      deny,
    });
    const unknown = definePlugin({
      name: 'unknown',
      offers: [
        defineCheck({
          id: 'local.classifier',
          description: 'Breaks.',
          phases: ['input', 'output'],
          schema: Type.Object({}),
          create: () => () => Promise.reject(new Error('gone')),
        }),
      ],
      create: () => ({}),
    });
    for (const deny of [true, false]) {
      const { call, verdicts } = await guarded(t, ofServer([broken(deny)]), { checksOf: [unknown] });
      assert.equal((await call({})).status, deny ? 446 : 200);
      assert.deepEqual(await verdicts(), ['b/local.classifier attempt failed']);
    }
  });
});

describe('guardrails of an organisation, a workspace and a server together', () => {
  const record = (slug: string, word: string, workspaceId?: string) =>
    ({
      ...{ kind: 'guardrail', id: `id-${slug}`, slug, organisationId: 'org-1', workspaceId, version: 1 },
      secrets: {},
      data: {
        checks: [
          {
            ...{ id: 'default.contains', name: 'c', isEnabled: true },
            parameters: { words: [word], operator: 'none' },
          },
        ],
        actions: { deny: true },
      },
    }) as unknown as StoredRecord<'guardrail'>;
  const records = [record('org', 'Initech'), record('ws', 'Umbrella', 'ws-1'), record('srv', 'Globex')];

  async function start(
    t: TestContext,
    defaults: DirectoryDefaults,
    more: readonly StoredRecord<'guardrail'>[] = [],
  ) {
    const all = [...more, ...records];
    const servers = { tickets: { guardrails: { input_guardrails: ['srv'] } } };
    return guarded(
      t,
      {},
      {
        plugins: [auth, guardrails, toolsPlugin({}, servers)],
        keys: { 'wk-a': testKey() },
        directory: {
          defaultsOf: () => defaults,
          record: ((_kind: string, place: { workspaceId?: string }, name: string) =>
            all.find(
              (one) =>
                one.slug === name && (one.workspaceId === undefined || one.workspaceId === place.workspaceId),
            )) as never,
        },
      },
    );
  }
  const headers = { 'x-service-api-key': 'wk-a' };
  const defaults = {
    organisationGuardrails: { input: ['org'], output: [] },
    own: { guardrails: { input: ['ws'], output: [] } },
  } as unknown as DirectoryDefaults;

  test('judge in this order: organisation, workspace, headers, server', async (t) => {
    const { call } = await start(t, defaults);
    const asking = JSON.stringify([contains('nothing', { id: 'asked' })]);
    const { before } = await call({
      given: { text: 'hello' },
      headers: { ...headers, 'x-service-default-input-guardrails': asking },
    });
    assert.deepEqual(
      before.map(({ id }) => id),
      ['org', 'ws', 'asked', 'srv'],
    );
    for (const text of ['Initech', 'Umbrella', 'Globex'])
      assert.equal((await call({ given: { text }, headers })).status, 446, text);
  });

  test('a workspace that is excluded from those of the organisation is judged by its own and the server’s', async (t) => {
    const { own } = defaults;
    const { call } = await start(t, { own });
    const status = async (text: string) => (await call({ given: { text }, headers })).status;
    assert.deepEqual(
      [await status('Initech'), await status('Umbrella'), await status('Globex')],
      [200, 446, 446],
    );
  });

  test('a guardrail of a workspace cannot stand in for one of the server', async (t) => {
    const { call } = await start(t, {}, [record('srv', 'zzz', 'ws-1')]);
    assert.equal((await call({ given: { text: 'Globex' }, headers })).status, 446);
  });

  test('one that cannot run lets no call pass, and says which', async (t) => {
    const servers = { tickets: { guardrails: { input_guardrails: ['gone'] } } };
    const { call, sent } = await guarded(t, servers);
    const { status, error } = await call({});
    assert.equal(status, 400);
    assert.match(
      error?.message ?? '',
      /MCP server "tickets" cannot run.*there is no guardrail "gone".*settings/,
    );
    assert.deepEqual(sent, []);
  });
});

describe('a pipeline without what would look at calls', () => {
  test('lets no call pass that guardrails apply to', async (t) => {
    const calling = definePlugin({
      name: 'calling',
      create: (_, { router }) => ({
        request(context) {
          router.toolGuardrails(context, { server: 'tickets', ...ofServer([contains('x')]).tickets });
        },
      }),
    });
    const { call } = await guarded(t, {}, { plugins: [calling, toolsPlugin({})] });
    const { status, error } = await call({});
    assert.equal(status, 400);
    assert.match(error?.message ?? '', /runs none. Add the plugin "guardrails" to it, before "mcp"/);
  });

  test('refuses requests to MCP servers before a provider would get them', async (t) => {
    const { url } = await startTestGateway(t, { plugins: [guardrails, providerPlugin({ default: 'mock' })] });
    for (const path of ['/v1/tickets/mcp', '/v1/x/sse', '/v1/%6dcp']) {
      const answer = await send(`${url}${path}`, { method: 'POST', body: '{}' });
      assert.equal(answer.status, 404, path);
      assert.match(answer.json().error.message, /serves none there. Add the plugin "mcp"/);
    }
  });
});
