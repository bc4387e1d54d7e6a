import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { isStreamSource, ReplayedStream } from '../../core/pipeline/answer.ts';
import { attemptContext } from '../../tests/kit/attempt-kit.ts';
import { replay } from './replay.ts';
import { type StoredAnswer, storedForm } from './stored-answer.ts';

const stored: StoredAnswer = {
  form: 'json',
  headers: ['content-type', 'application/json', 'content-language', 'de'],
  body: Buffer.from('{"choices":[]}\n{}'),
  model: 'm-1',
  finishReason: 'stop',
  usage: undefined,
  tellsUsage: false,
  askedAt: 9000,
  storedAt: 10_000,
};

describe('a stored answer', () => {
  test('is read as it was written, whatever is in it', () => {
    const usage = { promptTokens: 1, completionTokens: 2, totalTokens: 3, cachedTokens: 0 };
    const counted = {
      ...stored,
      usage: { ...usage, cacheWriteTokens: 0, reasoningTokens: 0, inputAudioTokens: 0, outputAudioTokens: 0 },
    };
    const odd = { ...stored, model: 'a\nb"', body: Buffer.from([0, 10, 255]) };
    const wide = { ...stored, model: '模型'.repeat(100) };
    const long = { ...stored, body: Buffer.alloc(100_000, 'x') };
    for (const one of [stored, counted, odd, wide, long])
      assert.deepEqual(storedForm.decode(storedForm.encode(one), one.storedAt), one);
  });

  test('keeps only headers that describe the answer', () => {
    const kept = storedForm.headers([
      'Content-Type',
      'a',
      'Set-Cookie',
      'b',
      'Transfer-Encoding',
      'c',
      'X-Request-Id',
      'd',
      'Content-Language',
      'e',
    ]);
    assert.deepEqual(kept, ['content-type', 'a', 'content-language', 'e']);
  });

  test('tells an age that is never negative, whatever the clocks of two gateways say', async () => {
    for (const [now, age] of [
      [10_000, '0'],
      [10_999, '0'],
      [71_000, '61'],
      [9000, '0'],
    ] as const) {
      const answer = replay(await attemptContext(), stored, now);
      assert.deepEqual(answer?.headers, [...stored.headers, 'age', age]);
    }
  });

  test('that cannot be read is no answer in another form, and the very bytes in its own', async () => {
    const torn = { ...stored, body: Buffer.from('no JSON') };
    assert.equal(replay(await attemptContext({ body: { stream: true } }), torn, 0), undefined);
    assert.equal(replay(await attemptContext(), torn, 0)?.body, torn.body);
  });

  test('in the other form has the type of that, and its other headers', async () => {
    const answer = replay(
      await attemptContext({ body: { stream: true } }),
      { ...stored, body: Buffer.from('{"choices":[]}') },
      10_000,
    );
    assert.deepEqual(answer?.headers, [
      'content-type',
      'text/event-stream; charset=utf-8',
      'content-language',
      'de',
      'age',
      '0',
    ]);
    assert.equal(answer.dialect, 'openai-chat');
    assert.ok(isStreamSource(answer.body));
  });
});

describe('a replayed stream', () => {
  const bytes = Buffer.alloc(50_000, 'abc');

  test('stops when its reader is full and goes on when asked to', () => {
    const stream = new ReplayedStream(bytes);
    const received: Buffer[] = [];
    let ends = 0;
    stream.pipe({ data: (chunk) => received.push(chunk) < 0, end: () => ends++, fail: assert.fail });
    for (let count = 1; count <= 4; count++) {
      assert.equal(received.length, count);
      stream.resume();
    }
    assert.equal(ends, 1);
    assert.deepEqual(Buffer.concat(received), bytes);
    stream.resume();
    assert.equal(ends, 1);
  });

  test('bears a reader that asks for more while it is given some', () => {
    const stream = new ReplayedStream(bytes);
    const received: Buffer[] = [];
    let ends = 0;
    stream.pipe({
      data(chunk) {
        received.push(chunk);
        stream.resume();
        return true;
      },
      end: () => ends++,
      fail: assert.fail,
    });
    assert.deepEqual(Buffer.concat(received), bytes);
    assert.equal(ends, 1);
  });

  test('gives nothing after it was cancelled', () => {
    const stream = new ReplayedStream(bytes);
    let count = 0;
    stream.pipe({
      data() {
        count++;
        stream.cancel();
        return true;
      },
      end: assert.fail,
      fail: assert.fail,
    });
    stream.resume();
    assert.equal(count, 1);
  });
});
