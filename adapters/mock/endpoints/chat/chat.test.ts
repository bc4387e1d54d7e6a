import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { chatBody, eventsOf, exchange, textOf } from '../../mock.test-support.ts';

const weather = {
  type: 'function',
  function: {
    name: 'get_weather',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string' }, days: { type: 'integer', minimum: 1 } },
      required: ['city', 'days'],
    },
  },
};
const time = { type: 'function', function: { name: 'get_time' } };

async function ask(body: object, origin = 'mock:') {
  const received = await exchange({ body, origin });
  return { status: received.status, body: JSON.parse(textOf(received)) };
}

async function stream(body: object, origin = 'mock:') {
  const received = await exchange({ body: { ...body, stream: true }, origin });
  const events = eventsOf(received);
  return { last: events.at(-1), chunks: events.slice(0, -1).map((data) => JSON.parse(data)) };
}

describe('a chat answer', () => {
  it('has the shape of the specification and quotes the user', async () => {
    const { body } = await ask(chatBody('Hello, who are you?'));
    assert.match(body.id, /^chatcmpl-\w{24}$/);
    assert.equal(body.object, 'chat.completion');
    assert.equal(body.model, 'mock-gpt');
    assert.ok(Number.isInteger(body.created));
    assert.equal(typeof body.system_fingerprint, 'string');
    const [choice] = body.choices;
    assert.equal(choice.index, 0);
    assert.equal(choice.logprobs, null);
    assert.equal(choice.finish_reason, 'stop');
    assert.equal(choice.message.role, 'assistant');
    assert.match(choice.message.content, /"Hello, who are you\?"/);
    assert.equal(body.usage.total_tokens, body.usage.prompt_tokens + body.usage.completion_tokens);
    assert.equal(body.usage.completion_tokens, Math.ceil(choice.message.content.length / 4));
    assert.deepEqual(body.usage.prompt_tokens_details, { cached_tokens: 0, audio_tokens: 0 });
    assert.equal(body.usage.completion_tokens_details.rejected_prediction_tokens, 0);
  });

  it('quotes the last message of the user, of typed parts, and the result of a tool', async () => {
    const parts = [
      { type: 'text', text: 'one' },
      { type: 'image_url', image_url: { url: 'https://example.com/a.png' } },
      { type: 'text', text: 'two' },
    ];
    const messages: object[] = [
      { role: 'user', content: 'old' },
      { role: 'user', content: parts },
    ];
    const first = await ask({ model: 'mock-gpt', messages });
    assert.match(first.body.choices[0].message.content, /^You said: "one\ntwo"/);
    messages.push({ role: 'tool', tool_call_id: 'call_1', content: '22 °C' });
    const second = await ask({ model: 'mock-gpt', messages });
    assert.match(second.body.choices[0].message.content, /^The tool returned: "22 °C"/);
  });

  it('quotes at most 500 characters', async () => {
    const { body } = await ask(chatBody('x'.repeat(100_000)));
    assert.ok(body.choices[0].message.content.length < 700);
    assert.ok(body.usage.prompt_tokens > 25_000);
  });

  it('n gives that many different choices', async () => {
    const { body } = await ask(chatBody('x', { n: 3 }));
    assert.deepEqual(
      body.choices.map((choice: { index: number }) => choice.index),
      [0, 1, 2],
    );
    const texts = body.choices.map((choice: { message: { content: string } }) => choice.message.content);
    assert.equal(new Set(texts).size, 3);
  });

  for (const name of ['max_tokens', 'max_completion_tokens']) {
    it(`${name} cuts the answer and says so`, async () => {
      const { body } = await ask(chatBody('x', { [name]: 3 }));
      assert.equal(body.choices[0].finish_reason, 'length');
      assert.equal(body.choices[0].message.content.length, 12);
      assert.equal(body.usage.completion_tokens, 3);
    });
  }

  it('stop ends the answer before the sequence', async () => {
    const { body } = await ask(chatBody('before STOP after', { stop: ['never', ' STOP'] }));
    assert.equal(body.choices[0].message.content, 'You said: "before');
    assert.equal(body.choices[0].finish_reason, 'stop');
  });

  it('logprobs cover the text, with the alternatives asked for', async () => {
    const { body } = await ask(chatBody('Grüße 👋🏽', { logprobs: true, top_logprobs: 2 }));
    const { content } = body.choices[0].logprobs;
    const text = content.map((entry: { token: string }) => entry.token).join('');
    assert.equal(text, body.choices[0].message.content);
    for (const entry of content) {
      assert.ok(entry.logprob < 0);
      assert.equal(Buffer.from(entry.bytes).toString(), entry.token);
      assert.equal(entry.top_logprobs.length, 2);
      assert.equal(entry.top_logprobs[0].token, entry.token);
      assert.ok(entry.top_logprobs[1].logprob < entry.logprob);
    }
  });

  it('holds at most 100,000 tokens, all choices together', async () => {
    const { body } = await ask(chatBody('x', { n: 4 }), 'mock:?tokens=100000');
    assert.equal(body.usage.completion_tokens, 100_000);
  });

  it('refuses when the model name asks for it', async () => {
    const { body } = await ask({ ...chatBody('x'), model: 'mock-gpt:refusal' });
    assert.equal(body.choices[0].message.content, null);
    assert.match(body.choices[0].message.refusal, /cannot help/);
  });
});

describe('structured answers', () => {
  it('json_object gives a JSON object', async () => {
    const { body } = await ask(chatBody('a "quoted" word', { response_format: { type: 'json_object' } }));
    assert.equal(JSON.parse(body.choices[0].message.content).said, 'a "quoted" word');
  });

  it('json_schema gives an object that satisfies the schema', async () => {
    const schema = {
      type: 'object',
      properties: { name: { type: 'string' }, tags: { type: 'array', minItems: 2, items: { enum: ['a'] } } },
      required: ['name', 'tags'],
      additionalProperties: false,
    };
    const format = { type: 'json_schema', json_schema: { name: 'thing', strict: true, schema } };
    const { body } = await ask(chatBody('x', { response_format: format }), 'mock:?tokens=900');
    assert.deepEqual(JSON.parse(body.choices[0].message.content), { name: 'mock', tags: ['a', 'a'] });
  });
});

describe('tool calls', () => {
  const cases: readonly [string, object, readonly string[], string?][] = [
    ['required', { tools: [weather, time], tool_choice: 'required' }, ['get_weather']],
    [
      'a named function',
      { tools: [weather, time], tool_choice: { type: 'function', function: { name: 'get_time' } } },
      ['get_time'],
    ],
    ['auto, not mentioned', { tools: [weather, time] }, []],
    ['auto, mentioned', { tools: [weather, time] }, ['get_weather'], 'please get weather'],
    ['both mentioned', { tools: [weather, time] }, ['get_weather', 'get_time'], 'get_weather, get_time'],
    [
      'both mentioned, not in parallel',
      { tools: [weather, time], parallel_tool_calls: false },
      ['get_weather'],
      'get_weather and get_time',
    ],
    ['none, mentioned', { tools: [weather], tool_choice: 'none' }, [], 'get_weather'],
    ['part of a word', { tools: [time] }, [], 'forget_times'],
    ['asked by the model', { tools: [weather], model: 'mock:tool_calls=2' }, ['get_weather', 'get_weather']],
    ['asked, but no tools', { model: 'mock:tool_calls=2' }, []],
  ];
  for (const [name, more, expected, said = 'Hello'] of cases) {
    it(`${name}: ${expected.join(', ') || 'text'}`, async () => {
      const { body } = await ask({ ...chatBody(said), ...more });
      const { message, finish_reason } = body.choices[0];
      const calls = message.tool_calls ?? [];
      assert.deepEqual(
        calls.map((call: { function: { name: string } }) => call.function.name),
        expected,
      );
      assert.equal(finish_reason, expected.length === 0 ? 'stop' : 'tool_calls');
      assert.equal(message.content === null, expected.length > 0);
    });
  }

  it('carry arguments that satisfy the parameters', async () => {
    const { body } = await ask(chatBody('x', { tools: [weather, time], tool_choice: 'required' }));
    const [call] = body.choices[0].message.tool_calls;
    assert.equal(call.type, 'function');
    assert.match(call.id, /^call_/);
    assert.deepEqual(JSON.parse(call.function.arguments), { city: 'mock', days: 1 });
  });

  it('a result of a tool is answered in words, so that a loop ends', async () => {
    const messages = [
      { role: 'user', content: 'get_weather' },
      { role: 'tool', tool_call_id: 'c', content: 'sunny' },
    ];
    const { body } = await ask({ model: 'mock-gpt', messages, tools: [weather] });
    assert.equal(body.choices[0].finish_reason, 'stop');
  });

  it('deprecated functions get a function_call', async () => {
    const more = { functions: [weather.function], function_call: { name: 'get_weather' } };
    const { body } = await ask(chatBody('x', more));
    assert.equal(body.choices[0].finish_reason, 'function_call');
    assert.equal(body.choices[0].message.function_call.name, 'get_weather');
  });

  it('bound what many calls of large schemas add up to', async () => {
    const properties = Object.fromEntries(
      Array.from({ length: 900 }, (_, i) => [`p${i}`, { type: 'string', minLength: 400 }]),
    );
    const parameters = { type: 'object', properties, required: Object.keys(properties) };
    const tools = Array.from({ length: 100 }, (_, i) => ({
      type: 'function',
      function: { name: `tool_${i}`, parameters },
    }));
    const said = tools.map((tool) => tool.function.name).join(' ');
    const { body } = await ask(chatBody(said, { tools, n: 100 }));
    assert.ok(body.usage.completion_tokens <= 100_000);
  });
});

describe('a streamed chat answer', () => {
  it('sends role, content, finish and the end marker, and adds up to the whole answer', async () => {
    const { chunks, last } = await stream(chatBody('Hello'));
    const whole = await ask(chatBody('Hello'));
    assert.equal(last, '[DONE]');
    assert.deepEqual(chunks[0].choices[0].delta, { role: 'assistant', content: '', refusal: null });
    const text = chunks.map((chunk) => chunk.choices[0].delta.content ?? '').join('');
    assert.equal(text, whole.body.choices[0].message.content);
    assert.deepEqual(chunks.at(-1).choices[0], {
      index: 0,
      delta: {},
      logprobs: null,
      finish_reason: 'stop',
    });
    assert.ok(chunks.length > 5);
    for (const chunk of chunks) {
      assert.equal(chunk.object, 'chat.completion.chunk');
      assert.equal(chunk.id, chunks[0].id);
      assert.equal('usage' in chunk, false);
    }
  });

  it('sends usage in a chunk of its own, only when asked', async () => {
    const asked = await stream(chatBody('Hello', { stream_options: { include_usage: true } }));
    const whole = await ask(chatBody('Hello'));
    const usage = asked.chunks.at(-1);
    assert.deepEqual(usage.choices, []);
    assert.deepEqual(usage.usage, whole.body.usage);
    assert.ok(asked.chunks.slice(0, -1).every((chunk) => chunk.usage === null));
  });

  it('sends the arguments of every tool call in pieces', async () => {
    const body = chatBody('get_weather get_time', { tools: [weather, time] });
    const { chunks } = await stream(body);
    const deltas = chunks.flatMap((chunk) => chunk.choices[0].delta.tool_calls ?? []);
    const opened = deltas.filter((delta) => delta.id !== undefined);
    assert.deepEqual(
      opened.map((delta) => [delta.index, delta.type, delta.function.name, delta.function.arguments]),
      [
        [0, 'function', 'get_weather', ''],
        [1, 'function', 'get_time', ''],
      ],
    );
    const first = deltas.filter((delta) => delta.index === 0).map((delta) => delta.function.arguments);
    assert.ok(first.length > 3);
    assert.deepEqual(JSON.parse(first.join('')), { city: 'mock', days: 1 });
    assert.equal(chunks[0].choices[0].delta.content, null);
    assert.equal(chunks.at(-1).choices[0].finish_reason, 'tool_calls');
  });

  it('interleaves several choices, each with its own finish', async () => {
    const { chunks } = await stream(chatBody('Hello', { n: 2, logprobs: true }));
    const indexes = chunks.map((chunk) => chunk.choices[0].index);
    assert.deepEqual(indexes.slice(0, 4), [0, 1, 0, 1]);
    const finished = chunks.filter((chunk) => chunk.choices[0].finish_reason !== null);
    assert.deepEqual(
      finished.map((chunk) => chunk.choices[0].index),
      [0, 1],
    );
    assert.equal(chunks[2].choices[0].logprobs.content[0].token, chunks[2].choices[0].delta.content);
  });

  it('streams refusals and deprecated function calls in their own fields', async () => {
    const refused = await stream({ ...chatBody('x'), model: 'mock:refusal' });
    assert.match(refused.chunks.map((chunk) => chunk.choices[0].delta.refusal ?? '').join(''), /cannot help/);
    const more = { functions: [weather.function], function_call: { name: 'get_weather' } };
    const called = await stream(chatBody('x', more));
    const text = called.chunks.map((chunk) => chunk.choices[0].delta.function_call?.arguments ?? '').join('');
    assert.deepEqual(JSON.parse(text), { city: 'mock', days: 1 });
  });
});

describe('a wrong chat request', () => {
  const message = { role: 'user', content: 'x' };
  const cases: readonly [object, string][] = [
    [{ messages: [message] }, 'model'],
    [{ model: 'm'.repeat(257), messages: [message] }, 'model'],
    [{ model: 'm' }, 'messages'],
    [{ model: 'm', messages: [] }, 'messages'],
    [{ model: 'm', messages: [{ role: 'robot' }] }, 'messages[0].role'],
    [chatBody('x', { n: 129 }), 'n'],
    [chatBody('x', { n: 1.5 }), 'n'],
    [chatBody('x', { max_tokens: 0 }), 'max_tokens'],
    [chatBody('x', { stop: ['1', '2', '3', '4', '5'] }), 'stop'],
    [chatBody('x', { stream: 'yes' }), 'stream'],
    [chatBody('x', { top_logprobs: 2 }), 'top_logprobs'],
    [chatBody('x', { stream_options: { include_usage: true } }), 'stream_options'],
    [chatBody('x', { tool_choice: 'required' }), 'tool_choice'],
    [
      chatBody('x', { tools: [time], tool_choice: { type: 'function', function: { name: 'other' } } }),
      'tool_choice',
    ],
    [chatBody('x', { tools: [{ type: 'function', function: {} }] }), 'tools[0].function.name'],
    [chatBody('x', { response_format: { type: 'xml' } }), 'response_format.type'],
    [chatBody('x', { response_format: { type: 'json_schema' } }), 'response_format.json_schema'],
  ];
  for (const [body, param] of cases) {
    it(`names ${param}`, async () => {
      const answer = await ask(body);
      assert.equal(answer.status, 400);
      assert.equal(answer.body.error.param, param);
      assert.equal(answer.body.error.type, 'invalid_request_error');
    });
  }

  it('null means absent', async () => {
    const { status } = await ask(chatBody('x', { n: null, stop: null, tools: null, response_format: null }));
    assert.equal(status, 200);
  });

  for (const body of ['', '{"model":', '[]', '"text"']) {
    it(`${JSON.stringify(body)} is no JSON object`, async () => {
      const received = await exchange({ method: 'POST', body: Buffer.from(body) });
      assert.equal(received.status, 400);
      assert.match(JSON.parse(textOf(received)).error.message, /parse the JSON body/);
    });
  }

  it('a compressed body is refused, not misread', async () => {
    const body = Buffer.from([0x1f, 0x8b, 0x08]);
    const received = await exchange({ headers: ['content-encoding', 'gzip'], body });
    assert.equal(received.status, 415);
  });
});
