import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { DialectName, EndpointId } from '../../core/dialects/endpoint.ts';
import { dialects } from '../dialects/index.ts';
import { chatBody, exchange } from './mock.test-support.ts';

const wires: readonly [DialectName, EndpointId, string, object, object?][] = [
  ['openai-chat', 'chat.completions', '/chat/completions', {}, { stream_options: { include_usage: true } }],
  ['openai-responses', 'responses', '/responses', { input: 'Hello' }],
  ['anthropic-messages', 'messages', '/messages', { max_tokens: 500 }],
];

describe("the gateway's own readers understand the mock provider", () => {
  for (const [name, endpoint, path, more, streamMore] of wires) {
    const dialect = dialects.get(name)!;
    it(name, async () => {
      const whole = await exchange({ path, body: chatBody('Hello', more) });
      const facts = dialect.scanAnswer(endpoint, Buffer.concat(whole.chunks));
      assert.equal(facts.model, 'mock-gpt');
      assert.ok(facts.finishReason);
      assert.ok(facts.usage!.completionTokens > 0);

      const stream = await exchange({
        path,
        body: chatBody('Hello', { ...more, ...streamMore, stream: true }),
      });
      const scanner = dialect.streamScanner(endpoint);
      for (const chunk of stream.chunks) scanner.scan(chunk);
      assert.ok(scanner.ended);
      assert.deepEqual(scanner.facts.usage, facts.usage);
      assert.equal(scanner.facts.finishReason, facts.finishReason);
    });

    it(`${name}: a failure in mid-stream`, async () => {
      const origin = 'mock:?error_after_chunks=1';
      const stream = await exchange({
        origin,
        path,
        body: chatBody('Hello', { ...more, ...streamMore, stream: true }),
      });
      const scanner = dialect.streamScanner(endpoint);
      for (const chunk of stream.chunks) scanner.scan(chunk);
      assert.equal(scanner.ended, false);
      assert.match(scanner.facts.errorMessage ?? '', /failed in mid-stream/);
    });
  }
});
