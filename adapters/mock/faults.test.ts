import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import {
  chatBody,
  eventsOf,
  exchange,
  header,
  newTransport,
  textOf,
  type MockSend,
} from './mock.test-support.ts';
import { MockProblem } from './answer.ts';
import { FailCounter, faultRules, faultWords } from './request.ts';

const streamed = (origin: string, more: object = {}): MockSend => ({
  origin,
  body: chatBody('Hello', { stream: true, ...more }),
});

describe('fault words', () => {
  it('are read from texts with either separator', () => {
    assert.deepEqual(faultRules.parse('latency_ms=5,status=503', 'model'), { latency_ms: 5, status: 503 });
    assert.deepEqual(faultRules.parse('no_done&fail_rate=0.25&encoding=br', 'base_url'), {
      no_done: true,
      fail_rate: 0.25,
      encoding: 'br',
    });
    assert.deepEqual(faultRules.parse('', 'base_url'), {});
  });

  const wrong = [
    ['latncy_ms=5', /no fault `latncy_ms`. Known: .*latency_ms.*fail_rate/],
    ['__proto__', /no fault/],
    ['status=200', /from 400 to 599/],
    ['status=4e2', /from 400 to 599/],
    ['fail_rate=1.5', /from 0 to 1/],
    ['fail_rate=', /from 0 to 1/],
    ['encoding=zip', /gzip, br/],
    ['no_done=maybe', /`no_done` alone/],
    ['tokens=100001', /from 1 to 100000/],
  ] as const;
  for (const [text, message] of wrong) {
    it(`refuses ${text}`, () => {
      assert.throws(
        () => faultRules.parse(text, 'model'),
        (error) => error instanceof MockProblem && error.status === 400 && message.test(error.message),
      );
    });
  }

  const models = [
    ['mock:latency_ms=1', 'latency_ms=1'],
    ['mock-gpt:status=500,retry_after=1', 'status=500,retry_after=1'],
    ['mock-gpt', ''],
    ['gpt-4o', ''],
    ['ft:gpt-4o:acme::status=500', ''],
    ['llama3:8b', ''],
    ['mockingbird:7b', ''],
  ] as const;
  for (const [model, expected] of models) {
    it(`finds ${JSON.stringify(expected)} in the model ${model}`, () => {
      assert.equal(faultRules.ofModel(model), expected);
    });
  }

  it('are all explained in the documentation', () => {
    const text = readFileSync(new URL('../../docs/mock-provider.md', import.meta.url), 'utf8');
    const missing = Object.keys(faultWords).filter((word) => !text.includes(`| \`${word}`));
    assert.deepEqual(missing, []);
  });
});

describe('where faults are asked for', () => {
  it('an unknown word gets a 400 that names the known ones', async () => {
    const received = await exchange({ body: { ...chatBody('x'), model: 'mock:latency=5' } });
    const { error } = JSON.parse(textOf(received));
    assert.equal(received.status, 400);
    assert.equal(error.param, 'model');
    assert.match(error.message, /no fault `latency`.*latency_ms/);
  });

  it('the base URL, a header and the model name; the nearer one wins', async () => {
    const send = { origin: 'mock:?status=501', headers: ['X-Mock-Faults', 'status=502'] };
    const byModel = await exchange({ ...send, body: { ...chatBody('x'), model: 'mock:status=503' } });
    const byHeader = await exchange({ ...send, body: chatBody('x') });
    const byUrl = await exchange({ origin: send.origin, method: 'GET', path: '/files' });
    assert.deepEqual([byModel.status, byHeader.status, byUrl.status], [503, 502, 501]);
  });
});

describe('status faults', () => {
  it('answer with the error shape, the status and retry-after', async () => {
    const received = await exchange({ origin: 'mock:?status=429&retry_after=7', body: chatBody('x') });
    assert.equal(received.status, 429);
    assert.equal(header(received, 'retry-after'), '7');
    const { error } = JSON.parse(textOf(received));
    assert.equal(error.type, 'rate_limit_error');
    assert.equal(error.code, 'rate_limit_exceeded');
  });

  it('speak the dialect of the endpoint', async () => {
    const received = await exchange({ origin: 'mock:?status=529', path: '/messages', body: {} });
    assert.deepEqual(JSON.parse(textOf(received)).error.type, 'overloaded_error');
  });

  it('fail_rate counts: 0.25 fails every fourth request, of each series by itself', () => {
    const counter = new FailCounter();
    const series = (key: string, rate: number, count: number) =>
      Array.from({ length: count }, () => Number(counter.next(key, rate))).join('');
    assert.equal(series('a', 0.25, 8), '00010001');
    assert.equal(series('b', 0.5, 4), '0101');
    assert.equal(series('c', 1, 2), '11');
    assert.equal(series('d', 0, 3), '000');
    assert.equal(series('e', 0.1, 10), '0000000001');
  });

  it('fail_rate decides over every failure that stands beside it, and fails with 500 alone', async () => {
    const transport = newTransport();
    const statuses: number[] = [];
    const codes: (string | undefined)[] = [];
    for (let i = 0; i < 4; i++) {
      const send = { body: chatBody('x') };
      statuses.push((await exchange({ ...send, origin: 'mock:?fail_rate=0.5' }, transport)).status);
      const origin = 'mock:?fail_rate=0.5&reset_before_head';
      codes.push((await exchange({ ...send, origin }, transport)).error?.code);
    }
    assert.deepEqual(statuses, [200, 500, 200, 500]);
    assert.deepEqual(codes, [undefined, 'upstream_reset', undefined, 'upstream_reset']);
  });
});

describe('broken answers', () => {
  const resets = [
    ['reset_before_head', ['fail']],
    ['reset_after_chunks=0', ['head', 'fail']],
    ['reset_after_chunks=3', ['head', 'data', 'data', 'data', 'fail']],
  ] as const;
  for (const [faults, calls] of resets) {
    it(`${faults} cuts the connection`, async () => {
      const received = await exchange(streamed(`mock:?${faults}`));
      assert.equal(received.error?.code, 'upstream_reset');
      assert.deepEqual(received.calls, calls);
    });
  }

  it('a whole answer is cut into pieces before it is reset', async () => {
    const received = await exchange({ origin: 'mock:?reset_after_chunks=2', body: chatBody('x') });
    assert.deepEqual(received.calls, ['head', 'data', 'data', 'fail']);
    assert.ok(textOf(received).length < Number(header(received, 'content-length')));
  });

  it('no_done ends cleanly without the end marker', async () => {
    const received = await exchange(streamed('mock:?no_done'));
    assert.ok(received.ended);
    assert.equal(textOf(received).includes('[DONE]'), false);
    assert.equal(JSON.parse(eventsOf(received).at(-1)!).choices[0].finish_reason, 'stop');
  });

  it('error_after_chunks sends an error event and ends without the end marker', async () => {
    const first = eventsOf(await exchange(streamed('mock:?error_after_chunks=0')));
    assert.equal(first.length, 1);
    assert.equal(JSON.parse(first[0]!).error.type, 'server_error');
    const later = eventsOf(await exchange(streamed('mock:?error_after_chunks=2')));
    assert.equal(later.length, 3);
    assert.ok(JSON.parse(later[2]!).error);
  });

  for (const path of ['/messages', '/responses']) {
    it(`error_after_chunks speaks the dialect of ${path}`, async () => {
      const body = { ...chatBody('x'), input: 'x', max_tokens: 9, stream: true };
      const received = await exchange({ origin: 'mock:?error_after_chunks=1', path, body });
      assert.match(textOf(received), /\n\nevent: error\ndata: \{"type":"error".*\n\n$/s);
    });
  }

  it('malformed_after_chunks tears one frame and goes on', async () => {
    const whole = eventsOf(await exchange(streamed('mock:')));
    const torn = eventsOf(await exchange(streamed('mock:?malformed_after_chunks=2')));
    assert.equal(torn.length, whole.length);
    assert.throws(() => JSON.parse(torn[2]!), SyntaxError);
    assert.deepEqual([torn[1], torn[3]].map(content), [whole[1], whole[3]].map(content));
  });

  it('malformed_after_chunks tears a whole answer', async () => {
    const received = await exchange({ origin: 'mock:?malformed_after_chunks=0', body: chatBody('x') });
    assert.ok(received.ended);
    assert.equal(header(received, 'content-length'), String(textOf(received).length));
    assert.throws(() => JSON.parse(textOf(received)), SyntaxError);
  });

  it('content_length_mismatch promises more than it sends', async () => {
    const received = await exchange({ origin: 'mock:?content_length_mismatch', body: chatBody('x') });
    assert.equal(received.error?.code, 'upstream_reset');
    assert.ok(Number(header(received, 'content-length')) > textOf(received).length);
    assert.ok(JSON.parse(textOf(received)).choices);
  });
});

describe('the look of answers', () => {
  it('tokens and chunk_tokens set the length and the size of the pieces', async () => {
    const origin = 'mock:?tokens=50&chunk_tokens=20';
    const received = await exchange(streamed(origin, { stream_options: { include_usage: true } }));
    const chunks = eventsOf(received)
      .slice(0, -1)
      .map((data) => JSON.parse(data));
    assert.equal(chunks.at(-1).usage.completion_tokens, 50);
    const pieces = chunks.filter((chunk) => chunk.choices[0]?.delta.content);
    assert.equal(pieces.length, 3);
  });

  it('usage=none leaves usage out', async () => {
    const whole = await exchange({ origin: 'mock:?usage=none', body: chatBody('x') });
    assert.equal('usage' in JSON.parse(textOf(whole)), false);
    const stream = await exchange(streamed('mock:?usage=none', { stream_options: { include_usage: true } }));
    assert.equal(textOf(stream).includes('"usage"'), false);
  });

  it('echo_headers sends the request headers back without credentials', async () => {
    const headers = ['Authorization', 'Bearer sk-secret', 'X-Api-Key', 'k', 'X-Trace', 'abc'];
    const received = await exchange({ origin: 'mock:?echo_headers', headers, body: chatBody('x') });
    assert.equal(header(received, 'x-mock-echo-x-trace'), 'abc');
    assert.equal(header(received, 'x-mock-echo-authorization'), '***');
    assert.equal(header(received, 'x-mock-echo-x-api-key'), '***');
  });

  const decoders = { gzip: gunzipSync, br: brotliDecompressSync };
  for (const [encoding, decode] of Object.entries(decoders)) {
    it(`encoding=${encoding} compresses whole answers and streams, piece by piece`, async () => {
      const plain = await exchange({ origin: `mock:?encoding=${encoding}`, body: chatBody('x') });
      assert.equal(header(plain, 'content-encoding'), encoding);
      const bytes = Buffer.concat(plain.chunks);
      assert.equal(header(plain, 'content-length'), String(bytes.length));
      assert.ok(JSON.parse(decode(bytes).toString()).choices);

      const stream = await exchange(streamed(`mock:?encoding=${encoding}`));
      const reference = await exchange(streamed('mock:'));
      assert.equal(header(stream, 'content-encoding'), encoding);
      assert.equal(content(decode(Buffer.concat(stream.chunks)).toString()), content(textOf(reference)));
      assert.ok(stream.chunks.length >= reference.chunks.length);
      assert.ok(stream.chunks.slice(0, reference.chunks.length).every((chunk) => chunk.length > 0));
    });
  }
});

/** Without what the clock decides. */
function content(text: string | undefined): string {
  return (text ?? '').replace(/"created":\d+/g, '');
}
