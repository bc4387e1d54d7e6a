import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ResponseContext } from './context.ts';
import { definePlugin, GatewayError, type AnyPlugin } from './plugin.ts';
import { asking, delta, done, pieces, role, said } from '../../tests/kit/chat-stream-kit.ts';
import { tapped, whole } from './tapped-gateway.test-support.ts';
import { send, type Answering } from '../../tests/kit/http-kit.ts';

describe('hold', () => {
  const holding = (
    response: (context: ResponseContext) => void | Promise<void>,
    name = 'holding',
  ): AnyPlugin => definePlugin({ name, capabilities: { stream: 'hold' }, create: () => ({ response }) });

  test('runs the response hook on the whole and replays the very bytes when it changes nothing', async (t) => {
    let seen: unknown;
    const { gateway } = await tapped(t, [
      holding(async ({ response }) => {
        await Promise.resolve();
        seen = [response.streamed, response.source, response.json];
      }),
    ]);
    const answer = await send(gateway.url, asking);
    assert.equal(answer.text, whole.join(''));
    const [streamed, source, json] = seen as [boolean, string, any];
    assert.deepEqual(
      [streamed, source, json.choices[0].message.content],
      [true, 'provider', 'one two three'],
    );
    assert.equal(json.usage.total_tokens, 7);
  });

  test('replays what the hook made of it', async (t) => {
    const { gateway } = await tapped(t, [
      holding(({ response }) => response.set(['choices', 0, 'message', 'content'], 'changed')),
    ]);
    const answer = await send(gateway.url, asking);
    assert.equal(said(answer.text), 'changed');
    assert.ok(answer.text.endsWith(done) && answer.complete);
    assert.equal((await gateway.untilSettled()).outcome.kind, 'completed');
  });

  test('a refusal has its own status, although the stream took long', async (t) => {
    const slow: Answering = (request, response, message) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(role);
      setTimeout(() => pieces(whole.slice(2))(request, response, message), 200);
      response.writeHead = () => response;
    };
    const { gateway } = await tapped(
      t,
      [
        holding(() => {
          throw new GatewayError('hooks_failed', 'Not this.');
        }),
      ],
      slow,
    );
    const answer = await send(gateway.url, asking);
    assert.deepEqual([answer.status, answer.json().error.message], [446, 'Not this.']);
    assert.doesNotMatch(answer.text, /two/);
  });

  test('on_error skip replays the stream when the hook fails', async (t) => {
    const failing = holding(() => {
      throw new Error('broken');
    });
    const { gateway } = await tapped(t, [{ plugin: failing, onError: 'skip' }]);
    assert.equal((await send(gateway.url, asking)).text, whole.join(''));
  });

  test('a stream that is too long to hold is stopped', async (t) => {
    const { gateway } = await tapped(
      t,
      [holding(() => undefined)],
      pieces(Array<string>(12).fill(delta('x'.repeat(1_000_000)))),
    );
    assert.match((await send(gateway.url, asking)).json().error.message, /longer than the 8388608 bytes/);
  });

  test('a failure in the middle leaves nothing of it', async (t) => {
    const { gateway } = await tapped(t, [holding(() => undefined)], pieces(whole.slice(0, 4), {}, 'cut'));
    const answer = await send(gateway.url, asking);
    assert.deepEqual([answer.status, answer.json().error.code], [502, 'upstream_reset']);
  });

  test('two that hold, and a tap between them', async (t) => {
    const upper = holding(({ response }) => {
      const json = response.json as any;
      response.set(['choices', 0, 'message', 'content'], `${json.choices[0].message.content}!`);
    }, 'upper');
    const middle = definePlugin({
      name: 'middle',
      capabilities: { stream: 'window' },
      create: () => ({
        stream: () => ({
          event: (event, emit) =>
            emit(event.type === 'text-delta' ? { ...event, text: event.text.replace('one', 'ONE') } : event),
        }),
      }),
    });
    const { gateway } = await tapped(t, [upper, middle, holding(() => undefined)]);
    assert.equal(said((await send(gateway.url, asking)).text), 'ONE two three!');
  });

  test('a whole answer passes the same hook', async (t) => {
    const { gateway } = await tapped(
      t,
      [holding(({ response }) => response.set(['a'], 2))],
      (_request, response) => {
        response.writeHead(200, { 'content-type': 'application/json' });
        response.end('{"a":1}');
      },
    );
    assert.equal((await send(gateway.url, asking)).text, '{"a":2}');
  });
});
