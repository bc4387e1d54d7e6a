import assert from 'node:assert/strict';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { after, before, describe, it } from 'node:test';
import { createBrotliDecompress, createGunzip } from 'node:zlib';
import OpenAI, { toFile } from 'openai';
import { chatBody } from './mock.test-support.ts';
import { serveMock, type MockServer } from '../../tests/kit/serve-mock.ts';

let server: MockServer;
let client: OpenAI;

before(async () => {
  server = await serveMock();
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'sk-test', maxRetries: 0 });
});

after(() => server.close());

/** Sends a chat request and reads the answer as far as it comes. */
function raw(faults: string, body: object = chatBody('Hello', { stream: true })) {
  return new Promise<{ head: IncomingMessage | undefined; bytes: Buffer; error: string | undefined }>(
    (resolve) => {
      const chunks: Buffer[] = [];
      let head: IncomingMessage | undefined;
      const settle = (error?: Error) =>
        resolve({
          head,
          bytes: Buffer.concat(chunks),
          error: error && 'code' in error ? String(error.code) : undefined,
        });
      const headers = { 'content-type': 'application/json', 'x-mock-faults': faults };
      const request = httpRequest(`${server.url}/v1/chat/completions`, {
        method: 'POST',
        headers,
        agent: false,
      });
      request.on('error', settle);
      request.on('response', (response) => {
        head = response;
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', settle);
        response.on('end', () => settle());
      });
      request.end(JSON.stringify(body));
    },
  );
}

describe('the mock server with the OpenAI SDK', () => {
  const messages = [{ role: 'user' as const, content: 'Hello' }];

  it('answers chat, whole and streamed', async () => {
    const whole = await client.chat.completions.create({ model: 'mock-gpt', messages });
    const stream = await client.chat.completions.create({
      model: 'mock-gpt',
      messages,
      stream: true,
      stream_options: { include_usage: true },
    });
    let text = '';
    let usage;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? '';
      usage = chunk.usage ?? usage;
    }
    assert.equal(text, whole.choices[0]!.message.content);
    assert.deepEqual(usage, whole.usage);
  });

  it('runs a tool loop to its end', async () => {
    const runner = client.chat.completions.runTools({
      model: 'mock-gpt',
      stream: true,
      messages: [{ role: 'user', content: 'get_weather' }],
      tools: [
        {
          type: 'function',
          function: {
            name: 'get_weather',
            description: 'weather',
            parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
            parse: JSON.parse,
            function: (args: { city: string }) => `sunny in ${args.city}`,
          },
        },
      ],
    });
    assert.match((await runner.finalContent()) ?? '', /The tool returned: "sunny in mock"/);
  });

  it('streams responses', async () => {
    const stream = await client.responses.create({ model: 'mock-gpt', input: 'Hello', stream: true });
    let last;
    for await (const event of stream) last = event;
    assert.equal(last?.type, 'response.completed');
  });

  it('embeds, moderates, lists and uploads', async () => {
    const embedded = await client.embeddings.create({ model: 'mock-embedding', input: 'x', dimensions: 4 });
    assert.equal(embedded.data[0]!.embedding.length, 4);
    assert.ok((await client.moderations.create({ input: 'kill' })).results[0]!.flagged);
    const file = await toFile(Buffer.from('{}\n'), 'data.jsonl');
    const uploaded = await client.files.create({ file, purpose: 'fine-tune' });
    assert.equal(uploaded.bytes, 3);
    assert.equal(await (await client.files.content(uploaded.id)).text(), '{}\n');
    let jobs = 0;
    for await (const job of client.fineTuning.jobs.list()) jobs += job.object === 'fine_tuning.job' ? 1 : 0;
    assert.equal(jobs, 48);
  });

  it('raises the errors of the SDK', async () => {
    await assert.rejects(
      client.chat.completions.create({ model: 'mock:status=429', messages }),
      OpenAI.RateLimitError,
    );
    await assert.rejects(async () => {
      const stream = await client.chat.completions.create({
        model: 'mock:error_after_chunks=2',
        messages,
        stream: true,
      });
      for await (const chunk of stream) assert.ok(chunk);
    }, /failed in mid-stream/);
  });
});

describe('the mock server on the wire', () => {
  it('really cuts the connection before the head', async () => {
    const { head, error } = await raw('reset_before_head');
    assert.equal(head, undefined);
    assert.equal(error, 'ECONNRESET');
  });

  for (const count of [0, 3]) {
    it(`really cuts the connection after ${count} chunks, which arrive`, async () => {
      const { head, bytes, error } = await raw(`reset_after_chunks=${count}`);
      assert.equal(head?.statusCode, 200);
      assert.equal(bytes.toString().split('\n\n').length - 1, count);
      assert.equal(error, 'ECONNRESET');
    });
  }

  it('promises more than it sends with content_length_mismatch', async () => {
    const { head, bytes, error } = await raw('content_length_mismatch', chatBody('Hello'));
    assert.ok(Number(head?.headers['content-length']) > bytes.length);
    assert.ok(JSON.parse(bytes.toString()).choices);
    assert.equal(error, 'ECONNRESET');
  });

  for (const [encoding, decoder] of [
    ['gzip', createGunzip] as const,
    ['br', createBrotliDecompress] as const,
  ]) {
    it(`streams ${encoding} that a decoder can read while it comes`, async () => {
      const head = await new Promise<IncomingMessage>((resolve, reject) => {
        const headers = { 'x-mock-faults': `encoding=${encoding},stall_after_chunks=3` };
        const request = httpRequest(`${server.url}/chat/completions`, {
          method: 'POST',
          headers,
          agent: false,
        });
        request.on('response', resolve).on('error', reject);
        request.end(JSON.stringify(chatBody('Hello', { stream: true })));
      });
      let text = '';
      const decoded = head.pipe(decoder());
      for await (const chunk of decoded as AsyncIterable<Buffer>) {
        text += chunk.toString();
        if (text.split('\n\n').length > 3) break;
      }
      head.destroy();
      assert.equal(head.headers['content-encoding'], encoding);
      assert.equal(text.split('\n\n').length - 1, 3);
    });
  }

  it('waits for room and then sends all of it', async () => {
    // Every chunk holds more than a socket takes at once.
    const body = chatBody('Hello', { stream: true, logprobs: true, top_logprobs: 20 });
    const { bytes, error } = await raw('tokens=2000,chunk_tokens=100', body);
    assert.equal(error, undefined);
    assert.ok(bytes.length > 1_000_000);
    assert.match(bytes.toString(), /data: \[DONE\]\n\n$/);
  });

  it('closes while an answer hangs', async () => {
    const other = await serveMock({ faults: 'stall_before_head' });
    const hanging = fetch(`${other.url}/models`);
    await Promise.all([
      assert.rejects(hanging),
      new Promise((resolve) => setTimeout(resolve, 20)).then(() => other.close()),
    ]);
  });

  it('takes faults for every request, and names what it does not know', async () => {
    const other = await serveMock({ faults: 'status=418' });
    assert.equal((await fetch(`${other.url}/models`)).status, 418);
    await other.close();
    const wrong = await serveMock({ faults: 'teapot' });
    const answer = await fetch(`${wrong.url}/models`);
    assert.equal(answer.status, 400);
    assert.match(await answer.text(), /teapot/);
    await wrong.close();
  });
});
