// Agents that leave their earlier turns to the host: the Vercel AI SDK's default loop and OpenAI's own SDK, at providers
// that keep nothing. With the store in memory, and on a real Redis that two gateways share.
import assert from 'node:assert/strict';
import { after, before, describe, test, type TestContext } from 'node:test';
import { createOpenAI } from '@ai-sdk/openai';
import { generateText, stepCountIs, streamText, tool } from 'ai';
import OpenAI, { BadRequestError, NotFoundError } from 'openai';
import { z } from 'zod';
import { recordingLog } from '../../core/lifecycle/recording-services.test-support.ts';
import { definePlugin, redactor, type AnyPlugin, type RedactorRule } from '../../core/pipeline/plugin.ts';
import storedResponses from '../../plugins/stored-responses/index.ts';
import { openRedis } from '../../storage/redis/open-redis.ts';
import { createRedisCache } from '../../storage/redis/redis-cache.ts';
import { ManualClock } from '../conformance/manual-clock.ts';
import { testKey } from '../kit/plugin-kit.ts';
import { patientClock, redisMissing, startRedis, type RedisServer } from '../kit/redis-server.ts';
import {
  failureOf,
  modelOf,
  providerHeaders,
  riverText,
  serviceKey,
  signature,
  startSdkSetting,
  type ProviderWire,
  type SdkSetting,
  type SdkSettingOptions,
} from './sdk-setting.ts';

const otherKey = 'wk_other_0123456789abcdef';

function startSetting(t: TestContext, options: SdkSettingOptions = {}, limits = {}): Promise<SdkSetting> {
  return startSdkSetting(t, {
    plugins: [{ plugin: storedResponses, options: limits }],
    keys: { [otherKey]: testKey({ id: 'other', organisationId: 'default-org', workspaceId: 'ws-other' }) },
    ...options,
  });
}

const redacting = (rules: readonly RedactorRule[]): AnyPlugin =>
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

const clientOf = (setting: SdkSetting, wire: ProviderWire, apiKey = serviceKey): OpenAI =>
  new OpenAI({ apiKey, baseURL: setting.baseUrl, defaultHeaders: providerHeaders(wire), maxRetries: 0 });

/** The SDK has no type for what the API says here. */
const storeOf = (response: object): unknown => ('store' in response ? response.store : undefined);

const saidTo = (setting: SdkSetting): string => JSON.stringify(setting.lastSeen().body);

function toolsOf(setting: SdkSetting, ran: unknown[]) {
  const execute =
    (result: string) =>
    (input: unknown): Promise<string> => {
      ran.push(input);
      setting.play('grid-tool-results');
      return Promise.resolve(result);
    };
  return {
    get_weather: tool({
      description: 'The weather of a city.',
      inputSchema: z.object({ city: z.string(), unit: z.enum(['celsius', 'fahrenheit']).optional() }),
      execute: execute('14 °C'),
    }),
    get_tide: tool({
      description: 'The tide of a harbour.',
      inputSchema: z.object({ harbour: z.string(), days: z.array(z.number()).optional() }),
      execute: execute('16:40'),
    }),
  };
}

const wires = ['openai-chat', 'anthropic-messages', 'google-gemini'] as const;

for (const wire of wires) {
  describe(`stored responses at a provider of ${wire}`, () => {
    const model = modelOf[wire];

    test('the AI SDK loops over tools as it does by default, streaming or not', async (t) => {
      const setting = await startSetting(t);
      const openai = createOpenAI({
        apiKey: serviceKey,
        baseURL: setting.baseUrl,
        headers: providerHeaders(wire),
      });
      const asking = {
        model: openai.responses(model),
        prompt: 'Weather in Lübeck and tide in Travemünde?',
        maxRetries: 0,
        stopWhen: stepCountIs(3),
      };
      for (const isStream of [false, true]) {
        const ran: unknown[] = [];
        setting.play('grid-parallel-tools');
        const tools = toolsOf(setting, ran);
        const text = isStream
          ? await streamText({ ...asking, tools }).text
          : (await generateText({ ...asking, tools })).text;
        assert.equal(text, 'Lübeck has 14 °C; the tide is high at 16:40.');
        assert.equal(ran.length, 2);
        for (const one of ['14 °C', '16:40', 'Travemünde', 'get_tide'])
          assert.ok(saidTo(setting).includes(one), one);
      }
    });

    test('the AI SDK goes on from a response by its id', async (t) => {
      const setting = await startSetting(t);
      const openai = createOpenAI({
        apiKey: serviceKey,
        baseURL: setting.baseUrl,
        headers: providerHeaders(wire),
      });
      setting.play('grid-text');
      const first = await generateText({ model: openai.responses(model), prompt: 'Name a river.' });
      const previousResponseId = first.providerMetadata?.['openai']?.['responseId'];
      assert.ok(typeof previousResponseId === 'string');
      await generateText({
        model: openai.responses(model),
        prompt: 'Another one.',
        providerOptions: { openai: { previousResponseId } },
      });
      for (const one of ['Name a river.', 'The Danube flows', 'Another one.'])
        assert.ok(saidTo(setting).includes(one), one);
    });

    test('OpenAI’s SDK goes on, reads, lists and deletes', async (t) => {
      const setting = await startSetting(t);
      const openai = clientOf(setting, wire);
      setting.play('grid-text');
      const first = await openai.responses.create({
        model,
        input: 'Name a river.',
        instructions: 'Be terse.',
      });
      assert.deepEqual([storeOf(first), first.previous_response_id], [true, null]);
      const second = await openai.responses
        .stream({ model, input: 'And its source?', previous_response_id: first.id })
        .finalResponse();
      assert.deepEqual([storeOf(second), second.previous_response_id], [true, first.id]);
      for (const one of ['Name a river.', 'The Danube flows', 'And its source?'])
        assert.ok(saidTo(setting).includes(one), one);
      assert.ok(!saidTo(setting).includes('Be terse.'), 'instructions are those of their request alone');
      await openai.responses.create({ model, input: 'Third.', previous_response_id: second.id });
      assert.equal(saidTo(setting).split('The Danube flows').length, 3);

      const read = await openai.responses.retrieve(second.id);
      assert.equal(read.output_text, riverText);
      assert.deepEqual([read.id, read.status], [second.id, 'completed']);
      const items = await openai.responses.inputItems.list(second.id);
      assert.deepEqual(
        items.data.map((item) => 'content' in item && item.content),
        [[{ type: 'input_text', text: 'And its source?' }]],
      );

      const seen = setting.seen().length;
      const item = second.output.find(({ type }) => type === 'message');
      assert.ok(item?.id !== undefined);
      await openai.responses.delete(second.id);
      assert.ok((await failureOf(openai.responses.retrieve(second.id))) instanceof NotFoundError);
      assert.ok((await failureOf(openai.responses.inputItems.list(second.id))) instanceof NotFoundError);
      const asked = { model, input: [{ type: 'item_reference' as const, id: item.id }] };
      assert.ok((await failureOf(openai.responses.create(asked))) instanceof BadRequestError);
      assert.equal(setting.seen().length, seen, 'nothing of this reached the provider');
      assert.equal((await openai.responses.retrieve(first.id)).output_text, riverText);
    });
  });
}

describe('stored responses', () => {
  const wire = 'anthropic-messages';
  const model = modelOf[wire];

  test('thoughts are given back with their proof when they are referred to', async (t) => {
    const setting = await startSetting(t);
    const openai = clientOf(setting, wire);
    setting.play('grid-reasoning');
    const first = await openai.responses.create({ model, input: 'Think.' });
    const thought = first.output.find(({ type }) => type === 'reasoning');
    assert.ok(thought?.id !== undefined);
    setting.play('grid-text');
    const references = first.output.map(({ id }) => ({ type: 'item_reference' as const, id: id ?? '' }));
    await openai.responses.create({
      model,
      input: [{ role: 'user', content: 'Think.' }, ...references, { role: 'user', content: 'Go on.' }],
    });
    assert.ok(saidTo(setting).includes(signature));
  });

  test('guards in front of it see a kept response again when it is read', async (t) => {
    const guard = redacting([{ pattern: 'Danube', replacement: 'D.' }]);
    const setting = await startSetting(t, { plugins: [{ plugin: guard }, { plugin: storedResponses }] });
    const openai = clientOf(setting, wire);
    setting.play('grid-text');
    for (const stream of [false, true]) {
      const asked = { model, input: 'Name a river.', store: true };
      const response = stream
        ? await openai.responses.stream(asked).finalResponse()
        : await openai.responses.create(asked);
      for (const one of [response, await openai.responses.retrieve(response.id)]) {
        assert.match(JSON.stringify(one.output), /The D\. flows/);
        assert.doesNotMatch(JSON.stringify(one), /Danube/);
      }
      assert.ok(!saidTo(setting).includes('"store"'));
    }
  });

  test('store: false keeps nothing, and says so when it is referred to', async (t) => {
    const setting = await startSetting(t);
    const openai = clientOf(setting, wire);
    setting.play('grid-text');
    for (const stream of [false, true]) {
      const asked = { model, input: 'Name a river.', store: false };
      const response = stream
        ? await openai.responses.stream(asked).finalResponse()
        : await openai.responses.create(asked);
      assert.equal(storeOf(response), false);
      const error = await failureOf(
        openai.responses.create({ model, input: 'On.', previous_response_id: response.id }),
      );
      assert.ok(error instanceof BadRequestError, String(error));
      assert.equal(error.param, 'previous_response_id');
      assert.match(error.message, /"store": false.*Send the whole conversation in "input"/);
      const id = response.output[0]?.id ?? '';
      const referring = await failureOf(
        openai.responses.create({ model, input: [{ type: 'item_reference', id }] }),
      );
      assert.ok(referring instanceof BadRequestError, String(referring));
      assert.equal(referring.param, 'input[0]');
      assert.ok((await failureOf(openai.responses.retrieve(response.id))) instanceof NotFoundError);
    }
    assert.equal(setting.seen().length, 2);
  });

  test('a caller whose bodies are kept nowhere has to ask for it', async (t) => {
    const setting = await startSetting(t);
    const openai = clientOf(setting, wire);
    setting.play('grid-text');
    const headers = { 'x-service-debug': 'false' };
    const unsaid = await openai.responses.create({ model, input: 'Name a river.' }, { headers });
    assert.equal(storeOf(unsaid), false);
    assert.ok((await failureOf(openai.responses.retrieve(unsaid.id))) instanceof NotFoundError);
    const asked = await openai.responses.create({ model, input: 'A river.', store: true }, { headers });
    assert.equal((await openai.responses.retrieve(asked.id)).id, asked.id);
  });

  test('what is no reference is refused with its place', async (t) => {
    const setting = await startSetting(t);
    const { baseUrl } = setting;
    setting.play('grid-text');
    const ask = async (path: string, body?: object): Promise<{ status: number; param: unknown }> => {
      const answer = await fetch(`${baseUrl}${path}`, {
        method: body === undefined ? 'GET' : 'POST',
        headers: {
          authorization: `Bearer ${serviceKey}`,
          'content-type': 'application/json',
          ...providerHeaders(wire),
        },
        ...(body === undefined ? {} : { body: JSON.stringify({ model, ...body }) }),
      });
      const { error, id } = (await answer.json()) as { error?: { param: unknown }; id?: string };
      return { status: answer.status, param: error?.param ?? id };
    };
    const made = await ask('/responses', { input: [{ role: 'user', content: 'One.' }] });
    const below = `/responses/${String(made.param)}`;
    const many = Array.from({ length: 3 }, (_, i) => ({ role: 'user', content: String(i) }));
    const long = await ask('/responses', { input: many });
    const items = `/responses/${String(long.param)}/input_items`;
    const cases: readonly (readonly [string, object | undefined, number, string | undefined])[] = [
      ['/responses', { input: 'x', previous_response_id: 5 }, 400, 'previous_response_id'],
      ['/responses', { input: {}, previous_response_id: 'resp_x' }, 400, 'input'],
      ['/responses', { input: [{ id: 'msg_x' }] }, 400, 'input[0]'],
      [`${below}/input_items?limit=0`, undefined, 400, 'limit'],
      [`${below}/input_items?order=up`, undefined, 400, 'order'],
      [`${below}/input_items?after=x`, undefined, 400, 'after'],
      [`${below}?stream=true`, undefined, 400, 'stream'],
      [`${below}/cancel`, {}, 404, 'response_id'],
      ['/responses/resp_none', undefined, 404, 'response_id'],
    ];
    for (const [path, body, status, param] of cases)
      assert.deepEqual(await ask(path, body), { status, param }, path);
    const page = async (query: string) => {
      const answer = await fetch(`${baseUrl}${items}?${query}`, {
        headers: { authorization: `Bearer ${serviceKey}` },
      });
      return (await answer.json()) as {
        data: { content: { text: string }[] }[];
        last_id: string;
        has_more: boolean;
      };
    };
    const said: string[] = [];
    let after = '';
    for (let more = true; more;) {
      const { data, last_id, has_more } = await page(`order=asc&limit=2${after}`);
      said.push(...data.map(({ content }) => content[0]?.text ?? ''));
      [after, more] = [`&after=${last_id}`, has_more];
    }
    assert.deepEqual(said, ['0', '1', '2']);
  });

  test('the key of another workspace never finds them', async (t) => {
    const setting = await startSetting(t);
    setting.play('grid-text');
    const first = await clientOf(setting, wire).responses.create({ model, input: 'Name a river.' });
    const other = clientOf(setting, wire, otherKey);
    for (const asked of [
      { model, input: 'On.', previous_response_id: first.id },
      { model, input: [{ type: 'item_reference' as const, id: first.output[0]?.id ?? '' }] },
    ])
      assert.ok((await failureOf(other.responses.create(asked))) instanceof BadRequestError);
    assert.ok((await failureOf(other.responses.retrieve(first.id))) instanceof NotFoundError);
    assert.ok((await failureOf(other.responses.delete(first.id))) instanceof NotFoundError);
    assert.ok((await failureOf(other.responses.inputItems.list(first.id))) instanceof NotFoundError);
    assert.equal((await clientOf(setting, wire).responses.retrieve(first.id)).id, first.id);
    assert.equal(setting.seen().length, 1);
  });

  test('what is too large to keep, or too old, is not there', async (t) => {
    const setting = await startSetting(t, {}, { max_bytes: 4000, ttl: 60 });
    const openai = clientOf(setting, wire);
    setting.play('grid-text');
    for (const stream of [false, true]) {
      const asked = { model, input: 'x'.repeat(4000) };
      const { id } = stream
        ? await openai.responses.stream(asked).finalResponse()
        : await openai.responses.create(asked);
      assert.ok((await failureOf(openai.responses.retrieve(id))) instanceof NotFoundError);
    }
  });

  test('a provider that keeps its own state gets every reference as it is', async (t) => {
    const setting = await startSetting(t);
    const openai = clientOf(setting, 'openai-responses');
    setting.play('grid-text');
    const input = [{ type: 'item_reference' as const, id: 'msg_theirs' }];
    await openai.responses.create({ model: 'gpt-5.1', input, previous_response_id: 'resp_theirs' });
    const body = setting.lastSeen().body as Record<string, unknown>;
    assert.deepEqual([body['input'], body['previous_response_id']], [input, 'resp_theirs']);
  });
});

describe('stored responses on Redis', { skip: redisMissing }, () => {
  let server: RedisServer;
  before(async () => {
    server = await startRedis();
  });
  after(() => server.stop());

  test('are found by every gateway of the store, until their time is over', async (t) => {
    const clock = new ManualClock();
    const replica = async (): Promise<SdkSetting> => {
      const redis = await openRedis({ url: server.url, clock: patientClock(), log: recordingLog([]) });
      t.after(() => redis.close());
      return startSetting(
        t,
        { cacheStore: createRedisCache({ redis, clock, maxValueBytes: 100_000 }) },
        { ttl: 60 },
      );
    };
    const [one, two] = [await replica(), await replica()];
    const wire = 'google-gemini';
    const model = modelOf[wire];
    one.play('grid-text');
    two.play('grid-text');
    const first = await clientOf(one, wire)
      .responses.stream({ model, input: 'Name a river.' })
      .finalResponse();
    const other = clientOf(two, wire);
    const second = await other.responses.create({ model, input: 'On.', previous_response_id: first.id });
    assert.ok(saidTo(two).includes('The Danube flows'));
    const item = second.output[0]?.id ?? '';
    const referring = {
      model,
      input: [
        { role: 'user' as const, content: 'Which?' },
        { type: 'item_reference' as const, id: item },
      ],
    };
    await clientOf(one, wire).responses.create(referring);
    assert.ok(saidTo(one).includes('The Danube flows'));
    await other.responses.delete(second.id);
    assert.ok((await failureOf(clientOf(one, wire).responses.retrieve(second.id))) instanceof NotFoundError);
    clock.advance(61_000);
    assert.ok((await failureOf(other.responses.retrieve(first.id))) instanceof NotFoundError);
  });

  test('that is away keeps nothing and holds nothing up', async (t) => {
    const redis = await openRedis({ url: server.url, clock: patientClock(10), log: recordingLog([]) });
    t.after(() => redis.close());
    const clock = new ManualClock();
    const cacheStore = createRedisCache({ redis, clock, maxValueBytes: 100_000 });
    const setting = await startSetting(t, { cacheStore });
    const openai = clientOf(setting, 'anthropic-messages');
    const model = modelOf['anthropic-messages'];
    setting.play('grid-text');
    const first = await openai.responses.create({ model, input: 'Name a river.' });
    await server.kill();
    const on = { model, input: 'On.', previous_response_id: first.id };
    assert.ok((await failureOf(openai.responses.create(on))) instanceof BadRequestError);
    for (const stream of [false, true]) {
      const asked = { model, input: 'Name a river.' };
      const response = stream
        ? await openai.responses.stream(asked).finalResponse()
        : await openai.responses.create(asked);
      assert.equal(response.output_text, riverText);
    }
  });
});
