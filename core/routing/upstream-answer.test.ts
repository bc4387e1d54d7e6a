import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import zlib from 'node:zlib';
import { openAiChat } from '../../adapters/dialects/openai-chat/index.ts';
import { TestContext } from '../../tests/kit/plugin-kit.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import { AnswerScan } from './upstream-answer.ts';

const event =
  'data: {"model":"m","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}\n\n';

/** The part of an exchange that a scan needs. */
function exchange() {
  const context = new TestContext({ path: '/chat/completions' });
  return Object.assign(context, { dialect: openAiChat, pendingFacts: undefined }) as unknown as Exchange;
}

describe('the scan beside an answer', () => {
  test('a compressed copy is read while it comes, and settling waits for it', async () => {
    const one = exchange();
    const scan = new AnswerScan(one, 'text/event-stream', 'gzip', false);
    const packed = zlib.gzipSync(event);
    scan.push(packed.subarray(0, 10));
    scan.push(packed.subarray(10));
    scan.finish();
    assert.notEqual(one.pendingFacts, undefined);
    await one.pendingFacts;
    assert.equal(one.facts.usage?.totalTokens, 3);
  });

  test('a copy that falls far behind is given up, and settling goes on', async () => {
    const one = exchange();
    const scan = new AnswerScan(one, 'text/event-stream', 'gzip', false);
    const packed = zlib.gzipSync(Buffer.alloc(1_000_000));
    scan.push(packed);
    // Within one turn nothing is decoded: all of it waits.
    for (let i = 0; i < 100; i++) scan.push(Buffer.alloc(1024 * 1024));
    scan.finish();
    await one.pendingFacts;
    assert.equal(one.facts.usage, undefined);
  });

  test('a JSON answer that flows by is read up to a bound', () => {
    const json = '{"model":"m","usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3},"pad":"';
    for (const [size, found] of [
      [1000, 3],
      [2_000_000, undefined],
    ] as const) {
      const one = exchange();
      const scan = new AnswerScan(one, 'application/json', 'identity', false);
      scan.push(Buffer.from(json));
      for (let sent = 0; sent < size; sent += 1000) scan.push(Buffer.alloc(1000, 'x'));
      scan.push(Buffer.from('"}'));
      scan.finish();
      assert.equal(one.facts.usage?.totalTokens, found);
    }
  });

  test('other content is not kept at all', () => {
    const one = exchange();
    const scan = new AnswerScan(one, 'audio/wav', 'identity', false);
    scan.push(Buffer.from(event));
    scan.finish();
    assert.deepEqual([one.facts.usage, one.facts.modelAnswered], [undefined, '']);
  });

  test('a collected answer: whether it is JSON is known, also when it was compressed', async () => {
    const body = Buffer.from(
      '{"model":"m","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}',
    );
    const plain = exchange();
    new AnswerScan(plain, 'application/json', 'identity', false).pushWhole(body);
    assert.deepEqual([plain.facts.usage?.totalTokens, plain.answerIsJson], [3, true]);
    const packed = exchange();
    new AnswerScan(packed, 'application/json', 'br', false).pushWhole(zlib.brotliCompressSync(body));
    await packed.pendingFacts;
    assert.equal(packed.facts.usage?.totalTokens, 3);
    const broken = exchange();
    new AnswerScan(broken, 'application/json', 'gzip', false).pushWhole(Buffer.from('nonsense'));
    await broken.pendingFacts;
    assert.equal(broken.facts.usage, undefined);
  });
});
