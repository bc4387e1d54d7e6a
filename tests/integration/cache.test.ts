// The cache of a whole gateway, as an application with the official SDK and an operator who reads the log see it.
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import type { RequestRow } from '../../core/ports/request-row.ts';
import {
  ownerKey,
  startWeir,
  stopEverything,
  temporaryFolder,
  type WeirProcess,
} from '../kit/process-kit.ts';

let weir: WeirProcess;
let data: string;
let openai: OpenAI;

before(async () => {
  data = path.join(await temporaryFolder(), 'data');
  weir = await startWeir({
    data,
    yaml: {
      version: 1,
      storage: { analytics: { url: 'none:' } },
      pipelines: [
        {
          name: 'gateway',
          match: { path: '/**' },
          plugins: [
            'auth',
            { 'rate-limit': { requests_per_hour: 1000 } },
            { cache: { max_age: 60 } },
            { provider: { default: 'mock' } },
            'logger',
          ],
        },
      ],
    },
  });
  openai = new OpenAI({ apiKey: ownerKey, baseURL: `${weir.url}/v1`, maxRetries: 0 });
});
after(stopEverything);

const ask = (content: string) => ({
  model: 'mock-gpt',
  messages: [{ role: 'user' as const, content }],
});

/** The text of a streamed answer, how it ended, and what the cache said. */
async function streamed(content: string, usage = false) {
  const { data: stream, response } = await openai.chat.completions
    .create({ ...ask(content), stream: true, ...(usage ? { stream_options: { include_usage: true } } : {}) })
    .withResponse();
  let text = '';
  let finish = '';
  const ids = new Set<string>();
  const totals: number[] = [];
  for await (const chunk of stream) {
    ids.add(chunk.id);
    text += chunk.choices[0]?.delta.content ?? '';
    finish = chunk.choices[0]?.finish_reason ?? finish;
    if (chunk.usage) totals.push(chunk.usage.total_tokens);
  }
  return { text, finish, totals, ids: [...ids], status: response.headers.get('x-service-cache-status') };
}

test('the SDK gets the same answer again, in either form', async () => {
  const first = await streamed('What is a weir?');
  assert.deepEqual([first.status, first.finish, first.totals], ['MISS', 'stop', []]);
  const again = await streamed('What is a weir?');
  assert.deepEqual(again, { ...first, status: 'HIT' });

  const { data: whole, response } = await openai.chat.completions
    .create(ask('What is a weir?'))
    .withResponse();
  assert.equal(response.headers.get('x-service-cache-status'), 'HIT');
  assert.match(response.headers.get('age') ?? '', /^\d+$/);
  assert.equal(whole.id, first.ids[0]);
  assert.equal(whole.choices[0]?.message.content, first.text);
  assert.ok((whole.usage?.total_tokens ?? 0) > 0);

  const counted = await streamed('What is a weir?', true);
  assert.deepEqual([counted.status, counted.text], ['HIT', first.text]);
  assert.deepEqual(counted.totals, [whole.usage?.total_tokens]);
});

test('a JSON answer becomes a stream that the SDK’s helper reads', async () => {
  const whole = await openai.chat.completions.create(ask('From JSON'));
  const runner = openai.chat.completions.stream(ask('From JSON'));
  assert.equal((await runner.finalMessage()).content, whole.choices[0]?.message.content);
  assert.equal((await runner.finalChatCompletion()).id, whole.id);
});

test('function calls survive being kept', async () => {
  const tools = [
    { type: 'function' as const, function: { name: 'get_weather', parameters: { type: 'object' } } },
  ];
  const asked = { ...ask('Please get weather in Paris'), tools };
  const whole = await openai.chat.completions.create(asked);
  const { data: again, response } = await openai.chat.completions.create(asked).withResponse();
  assert.equal(response.headers.get('x-service-cache-status'), 'HIT');
  assert.deepEqual(again, whole);
  const final = await openai.chat.completions.stream(asked).finalChatCompletion();
  const [call] = final.choices[0]?.message.tool_calls ?? [];
  const [expected] = whole.choices[0]?.message.tool_calls ?? [];
  assert.deepEqual([call?.id, call?.type], [expected?.id, 'function']);
  assert.equal(final.choices[0]?.finish_reason, 'tool_calls');
});

test('embeddings and moderations are kept, files are not', async () => {
  const statuses: (string | null)[] = [];
  const note = async (call: { asResponse(): Promise<Response> }): Promise<void> => {
    const response = await call.asResponse();
    await response.arrayBuffer();
    statuses.push(response.headers.get('x-service-cache-status'));
  };
  for (let i = 0; i < 2; i++) {
    await note(openai.embeddings.create({ model: 'mock-embedding', input: 'one' }));
    await note(openai.moderations.create({ input: 'one' }));
    await note(openai.files.list());
  }
  assert.deepEqual(statuses, ['MISS', 'MISS', 'DISABLED', 'HIT', 'HIT', 'DISABLED']);
});

test('two hundred requests for one new thing make one call', async () => {
  const answers = await Promise.all(
    Array.from({ length: 200 }, () => openai.chat.completions.create(ask('All at once')).withResponse()),
  );
  const misses = answers.filter(({ response }) => response.headers.get('x-service-cache-status') === 'MISS');
  assert.equal(misses.length, 1);
  assert.equal(new Set(answers.map(({ data: answer }) => answer.id)).size, 1);
});

test('the log says what the cache did, and a hit costs nothing', async () => {
  await weir.stop();
  const rows: Partial<RequestRow>[] = [];
  const folder = path.join(data, 'journal');
  for (const name of await readdir(folder)) {
    if (!name.startsWith('requests-')) continue;
    const lines = (await readFile(path.join(folder, name), 'utf8')).split('\n').filter((line) => line !== '');
    rows.push(...lines.map((line) => JSON.parse(line) as Partial<RequestRow>));
  }
  const hits = rows.filter((row) => row.cache_status === 'HIT');
  const misses = rows.filter((row) => row.cache_status === 'MISS' && row.endpoint === 'chat.completions');
  assert.ok(hits.length > 200 && misses.length >= 4, `${hits.length} hits, ${misses.length} misses`);
  for (const row of hits) {
    assert.deepEqual(
      [row.total_tokens, Number(row.cost), row.pricing, row.attempts],
      [undefined, 0, 'none', undefined],
    );
    assert.deepEqual([row.provider, row.ai_service, row.status, row.is_success], ['mock', 'mock', 200, true]);
    assert.ok(row.model !== undefined && row.upstream_ms === undefined);
  }
  for (const row of misses) {
    assert.ok((row.total_tokens ?? 0) > 0 && Number(row.cost) > 0 && row.pricing === 'priced');
    assert.equal(row.attempts, 1);
  }
});
