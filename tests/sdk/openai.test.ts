import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import OpenAI, {
  APIUserAbortError,
  AuthenticationError,
  BadRequestError,
  InternalServerError,
  NotFoundError,
  RateLimitError,
} from 'openai';
import { eventually, ownerKey, startWeir, stopEverything, type WeirProcess } from '../kit/process-kit.ts';

let weir: WeirProcess;
let openai: OpenAI;

before(async () => {
  weir = await startWeir({
    yaml: {
      version: 1,
      storage: { analytics: { url: 'none:' } },
      pipelines: [
        {
          name: 'gateway',
          match: { path: '/**' },
          plugins: ['auth', 'request-parameters', 'provider', { logger: { bodies: true } }],
        },
      ],
    },
  });
  openai = client();
});
after(stopEverything);

function client(options: ConstructorParameters<typeof OpenAI>[0] = {}): OpenAI {
  return new OpenAI({
    apiKey: ownerKey,
    baseURL: `${weir.url}/v1`,
    maxRetries: 0,
    ...options,
    defaultHeaders: { 'x-service-provider': 'mock', ...options.defaultHeaders },
  });
}

const hello = [{ role: 'user' as const, content: 'Hello' }];

const weatherTools = ['get_weather', 'get_time'].map((name) => ({
  type: 'function' as const,
  function: {
    name,
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
}));

const everyCategory = [
  'harassment',
  'harassment/threatening',
  'hate',
  'hate/threatening',
  'self-harm',
  'self-harm/instructions',
  'self-harm/intent',
  'sexual',
  'sexual/minors',
  'violence',
  'violence/graphic',
];

test('a service key as the API key alone reaches a provider', async () => {
  const completion = await openai.chat.completions.create({ model: 'mock-gpt', messages: hello });
  assert.equal(completion.object, 'chat.completion');
  assert.match(completion.choices[0]?.message.content ?? '', /Hello/);
  assert.equal(completion.choices[0]?.finish_reason, 'stop');
  const usage = completion.usage;
  assert.ok(usage && usage.prompt_tokens > 0 && usage.completion_tokens > 0);
  assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
});

test('the headers of an alias prefix work, beside an API key that is the provider’s', async () => {
  const aliased = new OpenAI({
    apiKey: 'sk-of-the-provider',
    baseURL: `${weir.url}/v1`,
    maxRetries: 0,
    defaultHeaders: { 'x-portkey-api-key': ownerKey, 'x-portkey-provider': 'mock' },
  });
  const { data, response } = await aliased.chat.completions
    .create({ model: 'mock-gpt', messages: hello })
    .withResponse();
  assert.match(data.choices[0]?.message.content ?? '', /Hello/);
  assert.match(response.headers.get('x-service-request-id') ?? '', /./);
});

test('paths without /v1 work, too', async () => {
  const completion = await client({ baseURL: weir.url }).chat.completions.create({
    model: 'mock-gpt',
    messages: hello,
  });
  assert.match(completion.choices[0]?.message.content ?? '', /Hello/);
});

test('a streamed answer is the whole answer in pieces', async () => {
  const whole = await openai.chat.completions.create({ model: 'mock-gpt', messages: hello });
  const stream = await openai.chat.completions.create({ model: 'mock-gpt', messages: hello, stream: true });
  let text = '';
  let finish: string | null | undefined;
  for await (const chunk of stream) {
    // The client did not ask for usage: the event that carries it has no choice, and must not come.
    assert.equal(chunk.choices.length, 1);
    text += chunk.choices[0]?.delta.content ?? '';
    finish ??= chunk.choices[0]?.finish_reason;
  }
  assert.equal(text, whole.choices[0]?.message.content);
  assert.equal(finish, 'stop');
});

test('a stream carries usage for who asks', async () => {
  const stream = await openai.chat.completions.create({
    model: 'mock-gpt',
    messages: hello,
    stream: true,
    stream_options: { include_usage: true },
  });
  const usages: number[] = [];
  for await (const chunk of stream) if (chunk.usage) usages.push(chunk.usage.total_tokens);
  assert.equal(usages.length, 1);
  assert.ok((usages[0] ?? 0) > 0);
});

test('the stream helper assembles content and final message', async () => {
  const runner = openai.chat.completions.stream({ model: 'mock-gpt:tokens=12', messages: hello });
  let deltas = '';
  runner.on('content', (delta) => (deltas += delta));
  const message = await runner.finalMessage();
  assert.ok(deltas.length > 0);
  assert.equal(message.content, deltas);
  assert.equal(await runner.finalContent(), deltas);
});

test('a function is called, and its result answered', async () => {
  const asked = { role: 'user' as const, content: 'Please get weather in Paris' };
  const first = await openai.chat.completions.create({
    model: 'mock-gpt',
    messages: [asked],
    tools: weatherTools,
  });
  assert.equal(first.choices[0]?.finish_reason, 'tool_calls');
  const message = first.choices[0].message;
  const [call] = message.tool_calls ?? [];
  assert.ok(call?.type === 'function');
  assert.equal(call.function.name, 'get_weather');
  assert.equal(typeof JSON.parse(call.function.arguments).city, 'string');
  const second = await openai.chat.completions.create({
    model: 'mock-gpt',
    messages: [asked, message, { role: 'tool', tool_call_id: call.id, content: 'Rain, 12 degrees' }],
    tools: weatherTools,
  });
  assert.equal(second.choices[0]?.finish_reason, 'stop');
  assert.match(second.choices[0].message.content ?? '', /Rain, 12 degrees/);
});

test('several functions are called together, unless that is not wanted', async () => {
  const given = {
    model: 'mock-gpt',
    messages: [{ role: 'user' as const, content: 'get weather and get time' }],
    tools: weatherTools,
  };
  const together = await openai.chat.completions.create(given);
  assert.equal(together.choices[0]?.message.tool_calls?.length, 2);
  const alone = await openai.chat.completions.create({ ...given, parallel_tool_calls: false });
  assert.equal(alone.choices[0]?.message.tool_calls?.length, 1);
});

test('streamed function calls keep index, id and arguments', async () => {
  const runner = openai.chat.completions.stream({
    model: 'mock-gpt',
    messages: [{ role: 'user', content: 'get weather and get time' }],
    tools: weatherTools,
  });
  const { choices } = await runner.finalChatCompletion();
  const calls = choices[0]?.message.tool_calls ?? [];
  assert.deepEqual(
    calls.map((call) => call.type === 'function' && call.function.name),
    ['get_weather', 'get_time'],
  );
  assert.equal(new Set(calls.map(({ id }) => id)).size, 2);
  for (const call of calls) {
    assert.ok(call.type === 'function');
    assert.equal(typeof JSON.parse(call.function.arguments).city, 'string');
  }
  assert.equal(choices[0]?.finish_reason, 'tool_calls');
});

test('JSON mode and JSON schema are kept', async () => {
  const loose = await openai.chat.completions.create({
    model: 'mock-gpt',
    messages: [{ role: 'user', content: 'Answer in JSON' }],
    response_format: { type: 'json_object' },
  });
  assert.equal(typeof JSON.parse(loose.choices[0]?.message.content ?? ''), 'object');
  const strict = await openai.chat.completions.parse({
    model: 'mock-gpt',
    messages: hello,
    response_format: {
      type: 'json_schema',
      json_schema: {
        name: 'city',
        strict: true,
        schema: {
          type: 'object',
          properties: { name: { type: 'string' }, people: { type: 'integer' } },
          required: ['name', 'people'],
          additionalProperties: false,
        },
      },
    },
  });
  const city = JSON.parse(strict.choices[0]?.message.content ?? '') as Record<string, unknown>;
  assert.deepEqual(Object.keys(city).sort(), ['name', 'people']);
  assert.ok(Number.isInteger(city['people']));
});

test('embeddings: one for each input, as floats and as the base64 that the SDK asks for', async () => {
  const input = ['one', 'two'];
  const packed = await openai.embeddings.create({ model: 'mock-embedding', input });
  const plain = await openai.embeddings.create({ model: 'mock-embedding', input, encoding_format: 'float' });
  assert.equal(packed.data.length, 2);
  assert.equal(packed.data[0]?.embedding.length, 1536);
  assert.ok(packed.usage.prompt_tokens > 0);
  packed.data.forEach(({ embedding }, item) =>
    embedding.forEach((value, at) =>
      assert.ok(Math.abs(value - (plain.data[item]?.embedding[at] ?? NaN)) < 1e-6, `number ${at}`),
    ),
  );
});

test('moderations: all 11 categories, for one input and for a list', async () => {
  const one = await openai.moderations.create({ input: 'I want to kill them' });
  const [result] = one.results;
  assert.ok(result);
  assert.deepEqual(Object.keys(result.category_scores).sort(), everyCategory);
  assert.deepEqual(Object.keys(result.categories).filter((name) => everyCategory.includes(name)).length, 11);
  assert.equal(result.flagged, true);
  assert.equal(result.categories.violence, true);
  const list = await openai.moderations.create({ input: ['kind words', 'I want to kill them'] });
  assert.deepEqual(
    list.results.map(({ flagged }) => flagged),
    [false, true],
  );
});

test('files: listed by purpose, uploaded, read back, deleted', async () => {
  const listed = await openai.files.list();
  assert.ok(listed.data.length > 0);
  const purpose = listed.data[0]?.purpose;
  const some = await openai.files.list({ purpose });
  assert.ok(some.data.length > 0 && some.data.every((file) => file.purpose === purpose));
  const file = await openai.files.create({
    file: new File(['{"prompt":"é"}\n'], 'train.jsonl'),
    purpose: 'fine-tune',
  });
  assert.equal(file.filename, 'train.jsonl');
  assert.equal(await (await openai.files.content(file.id)).text(), '{"prompt":"é"}\n');
  assert.equal((await openai.files.delete(file.id)).deleted, true);
  await assert.rejects(openai.files.retrieve(file.id), NotFoundError);
});

test('fine-tuning jobs: 20 a page, the rest after the last', async () => {
  const first = await openai.fineTuning.jobs.list();
  assert.equal(first.data.length, 20);
  assert.equal(first.has_more, true);
  const next = await openai.fineTuning.jobs.list({ after: first.data[19]?.id, limit: 5 });
  assert.equal(next.data.length, 5);
  const seen = new Set<string>();
  for await (const job of openai.fineTuning.jobs.list()) seen.add(job.id);
  assert.equal(seen.size, 48);
  assert.deepEqual(
    [...seen].slice(20, 25),
    next.data.map(({ id }) => id),
  );
});

test('models are listed and found', async () => {
  const names = [];
  for await (const model of openai.models.list()) names.push(model.id);
  assert.ok(names.length > 0);
  assert.equal((await openai.models.retrieve(names[0] ?? '')).id, names[0]);
});

test('an unknown key is an AuthenticationError of the gateway', async () => {
  const stranger = client({ apiKey: 'wk_this_key_is_unknown' });
  await assert.rejects(stranger.chat.completions.create({ model: 'mock-gpt', messages: hello }), (error) => {
    assert.ok(error instanceof AuthenticationError, String(error));
    assert.equal(error.status, 401);
    assert.equal(typeof error.code, 'string');
    assert.match(error.headers.get('x-service-request-id') ?? '', /./);
    assert.doesNotMatch(error.message, /wk_this_key_is_unknown/);
    return true;
  });
});

for (const [wrong, body] of [
  ['temperature', { temperature: 3 }],
  ['top_logprobs', { top_logprobs: 2 }],
  ['stream_options', { stream_options: { include_usage: true } }],
  ['messages', { messages: undefined }],
] as const) {
  test(`what is wrong with ${wrong} is a BadRequestError that names it`, async () => {
    const given = { model: 'mock-gpt', messages: hello, ...body } as {
      model: string;
      messages: typeof hello;
    };
    await assert.rejects(openai.chat.completions.create(given), (error) => {
      assert.ok(error instanceof BadRequestError, String(error));
      assert.equal(error.param, wrong);
      assert.equal(error.type, 'invalid_request_error');
      return true;
    });
  });
}

test('the provider’s refusals become the SDK’s classes, with its headers', async () => {
  const ask = (model: string) => openai.chat.completions.create({ model, messages: hello });
  await assert.rejects(ask('mock:status=429,retry_after=1'), (error) => {
    assert.ok(error instanceof RateLimitError, String(error));
    assert.equal(error.headers.get('retry-after'), '1');
    return true;
  });
  await assert.rejects(ask('mock:status=401'), AuthenticationError);
  await assert.rejects(ask('mock:status=404'), NotFoundError);
  await assert.rejects(ask('mock:status=503'), InternalServerError);
  await assert.rejects(ask('mock:reset_before_head'), (error) => {
    assert.ok(error instanceof InternalServerError, String(error));
    assert.equal(error.status, 502);
    return true;
  });
});

test('the SDK retries what it may retry', async () => {
  const patient = client({ maxRetries: 2 });
  const { data } = await patient.chat.completions
    .create({ model: 'mock:fail_rate=0.5,status=503,retry_after=0', messages: hello })
    .withResponse();
  assert.equal(data.object, 'chat.completion');
  // Every second request fails: two in a row cannot both succeed at once without a retry.
  const again = await patient.chat.completions.create({
    model: 'mock:fail_rate=0.5,status=503,retry_after=0',
    messages: hello,
  });
  assert.equal(again.object, 'chat.completion');
});

test('a stream that the provider breaks off fails, and does not just end', async () => {
  const stream = await openai.chat.completions.create({
    model: 'mock-gpt:reset_after_chunks=3,tokens=50',
    messages: hello,
    stream: true,
  });
  let chunks = 0;
  await assert.rejects(async () => {
    for await (const chunk of stream) chunks += chunk.choices.length;
  });
  assert.ok(chunks >= 1 && chunks <= 3, String(chunks));
});

test('leaving a stream ends it in the gateway', async () => {
  const stream = await openai.chat.completions.create({
    model: 'mock-gpt:chunk_latency_ms=20,tokens=10000',
    messages: hello,
    stream: true,
  });
  for await (const chunk of stream) if (chunk.choices[0]?.delta.content) break;
  stream.controller.abort();
  await untilIdle();
});

test('an abort while the provider still thinks is an APIUserAbortError', async () => {
  const controller = new AbortController();
  const asked = openai.chat.completions.create(
    { model: 'mock-gpt:latency_ms=60000', messages: hello },
    { signal: controller.signal },
  );
  await eventually(async () => ((await activeRequests()) === 1 ? true : undefined));
  controller.abort();
  await assert.rejects(asked, APIUserAbortError);
  await untilIdle();
});

async function activeRequests(): Promise<number> {
  const status = (await (await fetch(`${weir.url}/status`)).json()) as { active_requests: number };
  return status.active_requests;
}

async function untilIdle(): Promise<void> {
  await eventually(
    async () => ((await activeRequests()) === 0 ? true : undefined),
    () => 'a gateway without requests',
  );
}
