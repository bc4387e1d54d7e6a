import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, it } from 'node:test';
import { chatBody, eventsOf, exchange, header, textOf } from '../mock.test-support.ts';

async function post(path: string, body: object, origin = 'mock:') {
  const received = await exchange({ path, body, origin });
  return { status: received.status, body: JSON.parse(textOf(received)) };
}

async function get(path: string, method = 'GET') {
  const received = await exchange({ path, method });
  return { status: received.status, body: JSON.parse(textOf(received)), received };
}

describe('completions', () => {
  it('answer each prompt n times, 16 tokens unless told otherwise', async () => {
    const { body } = await post('/completions', { model: 'mock-gpt', prompt: ['one', 'two'], n: 2 });
    assert.equal(body.object, 'text_completion');
    assert.equal(body.choices.length, 4);
    assert.match(body.choices[0].text, /"one"/);
    assert.match(body.choices[3].text, /"two"/);
    assert.equal(body.choices[0].finish_reason, 'length');
    assert.equal(body.usage.completion_tokens, 64);
    assert.equal(body.usage.total_tokens, body.usage.prompt_tokens + 64);
  });

  it('echo the prompt without counting it as written', async () => {
    const request = { model: 'mock-gpt', prompt: 'Once upon', echo: true, max_tokens: 2, logprobs: 1 };
    const { body } = await post('/completions', request);
    assert.match(body.choices[0].text, /^Once uponYou said/);
    assert.equal(body.usage.completion_tokens, 2);
    assert.equal(body.choices[0].logprobs.tokens.join(''), body.choices[0].text);
    assert.deepEqual(body.choices[0].logprobs.text_offset.slice(0, 3), [0, 4, 8]);
  });

  it('stream text, finish, usage on request and the end marker', async () => {
    const asked = { stream: true, stream_options: { include_usage: true }, logprobs: 0 };
    const request = { model: 'm', prompt: 'x', ...asked };
    const events = eventsOf(await exchange({ path: '/completions', body: request }));
    assert.equal(events.pop(), '[DONE]');
    const chunks = events.map((data) => JSON.parse(data));
    const whole = await post('/completions', { model: 'm', prompt: 'x' });
    assert.deepEqual(chunks[2].choices[0].logprobs.text_offset, [8]);
    assert.deepEqual(chunks.pop().usage, whole.body.usage);
    assert.equal(chunks.map((chunk) => chunk.choices[0].text).join(''), whole.body.choices[0].text);
    assert.equal(chunks.at(-1).choices[0].finish_reason, 'length');
  });
});

describe('embeddings', () => {
  const model = 'mock-embedding';

  it('are the same for the same text, different for another, and of length 1', async () => {
    const first = await post('/embeddings', { model, input: ['a', 'b', 'a'] });
    const [a, b, again] = first.body.data.map((item: { embedding: number[] }) => item.embedding);
    assert.equal(a.length, 1536);
    assert.deepEqual(a, again);
    assert.notDeepEqual(a, b);
    const length = Math.hypot(...a);
    assert.ok(Math.abs(length - 1) < 1e-5);
    assert.deepEqual(first.body.usage, { prompt_tokens: 3, total_tokens: 3 });
  });

  it('base64 holds the same numbers', async () => {
    const request = { model, input: 'a', dimensions: 8 };
    const floats = (await post('/embeddings', request)).body.data[0].embedding;
    const packed = (await post('/embeddings', { ...request, encoding_format: 'base64' })).body.data[0]
      .embedding;
    const bytes = Buffer.from(packed, 'base64');
    assert.deepEqual(
      Array.from({ length: 8 }, (_, i) => bytes.readFloatLE(i * 4)),
      floats,
    );
  });

  const inputs: readonly [unknown, number][] = [
    [[1, 2, 3], 1],
    [[[1, 2], [3]], 2],
    ['text', 1],
  ];
  for (const [input, count] of inputs) {
    it(`take ${JSON.stringify(input)}`, async () => {
      const { body } = await post('/embeddings', { model, input, dimensions: 2 });
      assert.equal(body.data.length, count);
    });
  }

  const wrong: readonly [object, string][] = [
    [{ model }, 'input'],
    [{ model, input: '' }, 'input'],
    [{ model, input: [] }, 'input'],
    [{ model, input: [{}] }, 'input[0]'],
    [{ model, input: Array.from({ length: 2000 }, () => 'x') }, 'input'],
    [{ model, input: 'x', dimensions: 0 }, 'dimensions'],
    [{ model, input: 'x', encoding_format: 'hex' }, 'encoding_format'],
  ];
  for (const [body, param] of wrong) {
    it(`refuse ${JSON.stringify(body).slice(0, 60)}`, async () => {
      const answer = await post('/embeddings', body);
      assert.equal(answer.status, 400);
      assert.equal(answer.body.error.param, param);
    });
  }
});

it('responses/input_tokens counts what a response is charged for', async () => {
  const request = { model: 'mock-gpt', instructions: 'Be brief.', input: 'Hello there' };
  const { body } = await post('/responses/input_tokens', request);
  const { usage } = (await post('/responses', request)).body;
  assert.deepEqual(body, { object: 'response.input_tokens', input_tokens: usage.input_tokens });
});

describe('messages/count_tokens', () => {
  const request = {
    model: 'mock-gpt',
    system: 'Be brief.',
    messages: [
      { role: 'user', content: 'Hello there' },
      { role: 'assistant', content: [{ type: 'text', text: 'Hi' }] },
    ],
  };
  it('counts what a message would be charged for', async () => {
    const counted = await post('/messages/count_tokens', request);
    const answered = await post('/messages', { ...request, max_tokens: 5 });
    assert.deepEqual(counted.body, { input_tokens: answered.body.usage.input_tokens });
    const tools = [{ name: 'get_weather', input_schema: { type: 'object' } }];
    const more = await post('/messages/count_tokens', { ...request, tools });
    assert.ok(more.body.input_tokens > counted.body.input_tokens);
  });

  it("refuses a request without messages in Anthropic's words", async () => {
    const { status, body } = await post('/messages/count_tokens', { model: 'mock-gpt' });
    assert.deepEqual([status, body.type, body.error.type], [400, 'error', 'invalid_request_error']);
  });
});

/** Routes of OpenAI, Anthropic, Gemini, Bedrock and Cohere that are not played. */
const unplayed: readonly (readonly [string, string, RegExp])[] = [
  ...[
    ['GET', '/chat/completions'],
    ['GET', '/v1/chat/completions/chatcmpl-1'],
    ['POST', '/audio/transcriptions'],
    ['POST', '/audio/translations'],
    ['POST', '/images/edits'],
    ['GET', '/batches'],
    ['POST', '/batches'],
    ['GET', '/batches/batch_1'],
    ['POST', '/uploads'],
    ['GET', '/fine_tuning/jobs/ftjob-mock-001/events'],
    ['GET', '/assistants?limit=20'],
    ['POST', '/threads/runs'],
    ['GET', '/vector_stores'],
    ['POST', '/conversations'],
    ['GET', '/responses/resp_1'],
    ['POST', '/realtime/client_secrets'],
    ['GET', '/realtime'],
    ['POST', '/videos'],
    ['GET', '/organization/costs'],
    ['POST', '/model/some-model/converse'],
    ['POST', '/v2/chat'],
  ].map(([method = '', path = '']) => [method, path, /"code":"not_played"/] as const),
  ['GET', '/v1/messages/batches', /"type":"error".*"not_implemented_error"/],
  ['POST', '/v1beta/models/mock-gpt:generateContent', /"status":"UNIMPLEMENTED"/],
  ['GET', '/v1beta/cachedContents', /"status":"UNIMPLEMENTED"/],
];

describe('a known route that is not played', () => {
  for (const [method, path, expected] of unplayed)
    it(`${method} ${path} is answered 501 with a sentence, and not tried again`, async () => {
      const { status, body, received } = await get(path, method);
      assert.equal(status, 501);
      const name = path.split('?')[0] ?? '';
      assert.ok(body.error.message.includes(`does not play ${method} ${name}`), body.error.message);
      assert.match(body.error.message, /docs\/mock-provider\.md/);
      assert.match(textOf(received), expected);
      assert.equal(header(received, 'x-should-retry'), 'false');
    });
});

describe('moderations', () => {
  const names = [
    'hate',
    'hate/threatening',
    'harassment',
    'harassment/threatening',
    'self-harm',
    'self-harm/intent',
    'self-harm/instructions',
    'sexual',
    'sexual/minors',
    'violence',
    'violence/graphic',
  ];
  it('have all 11 categories and scores, and the default model', async () => {
    const { body } = await post('/moderations', { input: 'A quiet day at the river.' });
    assert.match(body.id, /^modr-/);
    assert.equal(body.model, 'text-moderation-latest');
    const [result] = body.results;
    assert.equal(result.flagged, false);
    assert.deepEqual(Object.keys(result.categories), names);
    assert.deepEqual(Object.keys(result.category_scores), names);
    assert.ok(Object.values(result.categories).every((flag) => flag === false));
    assert.ok(Object.values(result.category_scores).every((score) => Number(score) < 0.01));
  });

  const cases: readonly [string, readonly string[]][] = [
    ['I will kill them', ['violence']],
    ['Such a loser!', ['harassment']],
    ['self-harm/intent', ['self-harm', 'self-harm/intent']],
    ['so much gore', ['violence', 'violence/graphic']],
    ['skilled work', []],
    ...names.map((name): [string, string[]] => [name, [...new Set([name.split('/')[0]!, name])]]),
  ];
  for (const [input, expected] of cases) {
    it(`"${input}" flags ${expected.join(', ') || 'nothing'}`, async () => {
      const { body } = await post('/moderations', { input, model: 'text-moderation-stable' });
      const [result] = body.results;
      const flagged = names.filter((name) => result.categories[name]);
      assert.deepEqual(flagged, expected);
      assert.equal(result.flagged, expected.length > 0);
      assert.equal(body.model, 'text-moderation-stable');
      assert.ok(expected.every((name) => result.category_scores[name] > 0.9));
    });
  }

  it('judge every text of a list, and typed parts as one', async () => {
    const list = await post('/moderations', { input: ['kill', 'fine'] });
    const flags = list.body.results.map((result: { flagged: boolean }) => result.flagged);
    assert.deepEqual(flags, [true, false]);
    const parts = [
      { type: 'text', text: 'kill' },
      { type: 'image_url', image_url: { url: 'x' } },
    ];
    assert.equal((await post('/moderations', { input: parts })).body.results.length, 1);
    assert.equal((await post('/moderations', {})).body.error.param, 'input');
  });
});

describe('responses', () => {
  it('answer in their shape', async () => {
    const { body } = await post('/responses', { model: 'm', input: 'Hello', instructions: 'Be brief' });
    assert.equal(body.object, 'response');
    assert.equal(body.status, 'completed');
    assert.match(body.output[0].content[0].text, /"Hello"/);
    assert.equal(body.usage.total_tokens, body.usage.input_tokens + body.usage.output_tokens);
  });

  it('stream numbered events that end with the whole response', async () => {
    const input = [{ role: 'user', content: [{ type: 'input_text', text: 'Hello' }] }];
    const body = { model: 'm', input, stream: true, max_output_tokens: 5 };
    const events = eventsOf(await exchange({ path: '/responses', body })).map((data) => JSON.parse(data));
    assert.deepEqual(
      events.map((event) => event.sequence_number),
      events.map((_, index) => index),
    );
    const deltas = events.filter((event) => event.type === 'response.output_text.delta');
    const last = events.at(-1);
    assert.equal(last.type, 'response.incomplete');
    assert.equal(last.response.output[0].content[0].text, deltas.map((event) => event.delta).join(''));
    assert.equal(last.response.usage.output_tokens, 5);
  });
});

describe('messages', () => {
  it('answer in their shape', async () => {
    const { body } = await post('/messages', { ...chatBody('Hello'), max_tokens: 500 });
    assert.equal(body.type, 'message');
    assert.match(body.content[0].text, /"Hello"/);
    assert.equal(body.stop_reason, 'end_turn');
    assert.ok(body.usage.input_tokens > 0 && body.usage.output_tokens > 0);
  });

  it('say why they stopped', async () => {
    const cut = await post('/messages', { ...chatBody('Hello'), max_tokens: 2 });
    assert.equal(cut.body.stop_reason, 'max_tokens');
    const stopped = await post('/messages', {
      ...chatBody('Hello'),
      max_tokens: 99,
      stop_sequences: ['said'],
    });
    assert.equal(stopped.body.stop_reason, 'stop_sequence');
    assert.equal(stopped.body.stop_sequence, 'said');
  });

  it('stream named events from message_start to message_stop', async () => {
    const body = { ...chatBody('Hello'), max_tokens: 500, stream: true };
    const received = await exchange({ path: '/messages', body });
    const events = eventsOf(received).map((data) => JSON.parse(data));
    const types = [...new Set(events.map((event) => event.type))];
    assert.deepEqual(types, [
      'message_start',
      'content_block_start',
      'ping',
      'content_block_delta',
      'content_block_stop',
      'message_delta',
      'message_stop',
    ]);
    const named = [...textOf(received).matchAll(/^event: (.*)$/gm)].map((found) => found[1]);
    assert.deepEqual(
      named,
      events.map((event) => event.type),
    );
    const whole = await post('/messages', { ...chatBody('Hello'), max_tokens: 500 });
    assert.equal(events.at(-2).usage.output_tokens, whole.body.usage.output_tokens);
  });

  it('report errors in their shape', async () => {
    const { status, body } = await post('/messages', chatBody('Hello'));
    assert.equal(status, 400);
    assert.equal(body.type, 'error');
    assert.equal(body.error.type, 'invalid_request_error');
    assert.match(body.error.message, /max_tokens/);
  });
});

describe('rerank', () => {
  const documents = ['a stone', 'the river and the weir', { text: 'a river' }];
  it('orders documents by relevance', async () => {
    const request = { model: 'm', query: 'river weir', documents, top_n: 2, return_documents: true };
    const { body } = await post('/rerank', request);
    assert.deepEqual(body.results, [
      { index: 1, relevance_score: 1, document: { text: 'the river and the weir' } },
      { index: 2, relevance_score: 0.5, document: { text: 'a river' } },
    ]);
  });

  it('names what is missing', async () => {
    assert.equal((await post('/rerank', { model: 'm', documents })).body.error.param, 'query');
    assert.equal((await post('/rerank', { model: 'm', query: 'x' })).body.error.param, 'documents');
  });
});

describe('media', () => {
  it('speech is a WAV file', async () => {
    const body = { model: 'mock-speech', input: 'Hello', voice: 'alloy' };
    const received = await exchange({ path: '/audio/speech', body });
    const wav = Buffer.concat(received.chunks);
    assert.equal(header(received, 'content-type'), 'audio/wav');
    assert.equal(wav.subarray(0, 4).toString(), 'RIFF');
    assert.equal(wav.readUInt32LE(4), wav.length - 8);
    assert.equal(wav.readUInt32LE(40), wav.length - 44);
    assert.ok(wav.subarray(44).some((byte) => byte !== 0));
  });

  it('images are PNGs', async () => {
    const { body } = await post('/images/generations', { prompt: 'a weir', n: 2 });
    assert.equal(body.data.length, 2);
    const png = Buffer.from(body.data[0].b64_json, 'base64');
    assert.equal(png.subarray(0, 8).toString('latin1'), '\x89PNG\r\n\x1a\n');
    const link = await post('/images/generations', { prompt: 'a weir', response_format: 'url' });
    assert.match(link.body.data[0].url, /^data:image\/png;base64,/);
  });
});

describe('models', () => {
  it('are listed and found; mock names always exist', async () => {
    const list = await get('/models');
    assert.equal(list.body.object, 'list');
    assert.ok(list.body.data.some((model: { id: string }) => model.id === 'mock-gpt'));
    assert.equal((await get('/models/mock-gpt%3Alatency_ms=5')).body.id, 'mock-gpt:latency_ms=5');
    const unknown = await get('/models/acme/unknown');
    assert.equal(unknown.status, 404);
    assert.equal(unknown.body.error.code, 'model_not_found');
  });
});

describe('any other path', () => {
  it('is echoed, credentials masked', async () => {
    const received = await exchange({
      method: 'PATCH',
      path: '/v1/my_own/vs_1?after=a%20b&tag=1&tag=2&api_key=secret',
      headers: ['Authorization', 'Bearer sk-secret', 'X-Twice', '1', 'x-twice', '2', 'Cookie', 'a=b'],
      body: Buffer.from([0, 1, 2, 255]),
    });
    assert.deepEqual(JSON.parse(textOf(received)), {
      object: 'mock.echo',
      method: 'PATCH',
      path: '/v1/my_own/vs_1',
      query: { after: 'a b', tag: ['1', '2'], api_key: '***' },
      headers: { authorization: '***', 'x-twice': ['1', '2'], cookie: '***' },
      body_bytes: 4,
      body_sha256: createHash('sha256')
        .update(Buffer.from([0, 1, 2, 255]))
        .digest('hex'),
    });
  });

  it('a known path with a wrong method is refused', async () => {
    const { status, body, received } = await get('/files/file-1/content', 'PUT');
    assert.equal(status, 405);
    assert.equal(header(received, 'allow'), 'GET');
    assert.equal(body.error.code, 'method_not_allowed');
  });

  it('endpoints are found with and without /v1', async () => {
    const received = await exchange({ path: '/v1/chat/completions', body: chatBody('x') });
    assert.equal(JSON.parse(textOf(received)).object, 'chat.completion');
  });
});
