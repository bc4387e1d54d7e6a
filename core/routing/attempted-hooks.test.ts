import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { Answer } from '../pipeline/answer.ts';
import { definePlugin, GatewayError, type AnyPlugin, type Hooks } from '../pipeline/plugin.ts';
import { asking, delta, done, finish, pieces, role } from '../../tests/kit/chat-stream-kit.ts';
import { providerPlugin, startTestGateway, type PlacedPlugin } from '../../tests/kit/gateway-kit.ts';
import { send, startUpstream, until, type Answering } from '../../tests/kit/http-kit.ts';

const chat = {
  path: '/v1/chat/completions',
  body: { model: 'm', messages: [{ role: 'user', content: 'x' }] },
};
const json: Answering = (_request, response) =>
  response.writeHead(200, { 'content-type': 'application/json' }).end('{"said":"provider"}');

const plugin = (name: string, hooks: Hooks): AnyPlugin =>
  definePlugin({ name, capabilities: { stream: 'ignore' }, create: () => hooks });

async function begin(t: TestContext, plugins: (AnyPlugin | PlacedPlugin)[], answer: Answering = json) {
  const upstream = await startUpstream(t, answer);
  const gateway = await startTestGateway(t, {
    plugins: [...plugins, providerPlugin({ default: 'up' })],
    providers: { up: { base_url: upstream.url } },
  });
  return { gateway, upstream };
}

const textOf = ({ body }: Answer): string => (Buffer.isBuffer(body) ? body.toString() : 'a stream');
/** The answer with another body. */
const saying = (text: string, answer: Answer): Answer => ({ ...answer, body: Buffer.from(text) });

describe('the attempted hook', () => {
  test('sees the answer before any response hook, the plugin nearest the provider first', async (t) => {
    const notes: string[] = [];
    const noting = (name: string): AnyPlugin =>
      plugin(name, {
        attempted({ attempt, dialect }, answer) {
          const { status, source } = answer;
          notes.push(`${name} ${status} ${textOf(answer)} ${source} ${attempt.provider} ${dialect.name}`);
          return undefined;
        },
        response: () => void notes.push(`${name} response`),
      });
    const { gateway } = await begin(t, [noting('a'), noting('b')]);
    const { text } = await send(gateway.url, chat);
    assert.equal(text, '{"said":"provider"}');
    const seen = '200 {"said":"provider"} provider up openai-chat';
    assert.deepEqual(notes, [`b ${seen}`, `a ${seen}`, 'b response', 'a response']);
  });

  test('may put another answer in its place, which the next one sees', async (t) => {
    const { gateway } = await begin(t, [
      plugin('outer', { attempted: (_context, answer) => saying(`"${textOf(answer)} outer"`, answer) }),
      plugin('inner', { attempted: (_context, answer) => saying('inner', answer) }),
    ]);
    const { text, headers } = await send(gateway.url, chat);
    assert.equal(text, '"inner outer"');
    assert.equal(headers['content-length'], String(text.length));
  });

  test('gets a stream before a byte of it has been read', async (t) => {
    let kind = '';
    const { gateway } = await begin(
      t,
      [
        plugin('a', {
          attempted: (_context, { body }) => void (kind = Buffer.isBuffer(body) ? 'bytes' : 'stream'),
        }),
      ],
      pieces([role, delta('x'), finish, done]),
    );
    assert.ok((await send(gateway.url, asking)).text.endsWith(done));
    assert.equal(kind, 'stream');
  });

  test('that refuses ends the stream at the provider, too', async (t) => {
    const refusing = plugin('a', {
      attempted() {
        throw new GatewayError('hooks_failed', 'No.');
      },
    });
    const { gateway, upstream } = await begin(t, [refusing], pieces([role], {}, 'hang'));
    assert.equal((await send(gateway.url, asking)).status, 446);
    await until(() => upstream.requests[0]?.cut === true, 'the end of the call');
  });

  test('that fails is skipped where the file says so', async (t) => {
    const failing = plugin('a', {
      attempted() {
        throw new TypeError('broken');
      },
    });
    const skipped = await begin(t, [{ plugin: failing, onError: 'skip' }]);
    assert.equal((await send(skipped.gateway.url, chat)).status, 200);
    assert.deepEqual(skipped.gateway.pluginErrors, ['a/attempted']);
    const { gateway } = await begin(t, [failing]);
    assert.equal((await send(gateway.url, chat)).status, 500);
  });

  test('is not called when an attempt hook has answered, and then nobody was asked', async (t) => {
    let called = 0;
    const answering = plugin('a', {
      attempt: () => ({ status: 200, headers: [], body: Buffer.from('{}') }),
      attempted: () => void called++,
    });
    const { gateway, upstream } = await begin(t, [answering]);
    assert.equal((await send(gateway.url, chat)).status, 200);
    assert.deepEqual([called, upstream.requests.length], [0, 0]);
    assert.equal((await gateway.untilSettled()).facts.attempts, 0);
  });

  test('is not called when the attempt brought no answer', async (t) => {
    let called = 0;
    const counting = plugin('a', { attempted: () => void called++ });
    const { gateway } = await begin(t, [counting], (_request, response) => void response.destroy());
    assert.equal((await send(gateway.url, chat)).status, 502);
    assert.equal(called, 0);
    assert.equal((await gateway.untilSettled()).facts.attempts, 1);
  });
});
