import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import zlib from 'node:zlib';
import type { Dialect } from '../dialects/dialect.ts';
import { dialects } from '../../adapters/dialects/index.ts';
import { defaultMaxFrameBytes } from '../base/sse.ts';
import {
  definePlugin,
  GatewayError,
  type AnyPlugin,
  type Capabilities,
  type StreamEvent,
  type StreamTap,
} from './plugin.ts';
import { providerPlugin, startTestGateway } from '../../tests/kit/gateway-kit.ts';
import {
  asking,
  delta,
  done,
  finish,
  frame,
  pieces,
  role,
  said,
  usage,
} from '../../tests/kit/chat-stream-kit.ts';
import { tapped, whole } from './tapped-gateway.test-support.ts';
import { begin, send, startUpstream, until } from '../../tests/kit/http-kit.ts';

const tapping = (
  tap: () => StreamTap,
  capabilities: Capabilities = { stream: 'window' },
  name = 'tapping',
): AnyPlugin => definePlugin({ name, capabilities, create: () => ({ stream: tap }) });

const refuse = (message = 'No.'): never => {
  throw new GatewayError('hooks_failed', message);
};

/** Passes every event on, or what `change` makes of a text. */
const texts = (change: (text: string) => string): StreamTap => ({
  event: (event, emit) => emit(event.type === 'text-delta' ? { ...event, text: change(event.text) } : event),
});

describe('a tap', () => {
  test('that changes nothing leaves every byte, wherever the chunks end', async (t) => {
    const bytes = Buffer.from(whole.join('').replace(': ping\n\n', ': ping\r\n\r\n'));
    let given: Buffer[] = [];
    const { gateway } = await tapped(t, [tapping(() => texts((text) => text))], (request, response) =>
      pieces(given)(request, response, response.req),
    );
    for (const size of [1, 7, 64, bytes.length]) {
      given = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
        bytes.subarray(i * size, i * size + size),
      );
      const answer = await send(gateway.url, asking);
      assert.deepEqual([answer.body, answer.complete], [bytes, true]);
    }
  });

  test('sees each event but the end marker, in order', async (t) => {
    const seen: StreamEvent[] = [];
    const observing = tapping(
      () => ({
        event(event, emit) {
          seen.push(event);
          emit(event);
        },
      }),
      { stream: 'observe' },
    );
    const { gateway } = await tapped(t, [observing]);
    await send(gateway.url, asking);
    assert.deepEqual(
      seen.map((event) => ('text' in event ? event.text : event.type)),
      ['opaque', 'opaque', 'one ', 'two ', 'three', 'finish', 'usage'],
    );
  });

  test('that changes a text rewrites its frame, keeps unknown fields, and leaves the others alone', async (t) => {
    const odd = delta('secret', { odd: { kept: 12345678901234567890n.toString() } });
    const given = [role, odd, delta('rest'), finish, usage, done];
    const { gateway } = await tapped(
      t,
      [tapping(() => texts((text) => text.replace('secret', '***')))],
      pieces(given),
    );
    const answer = await send(gateway.url, asking);
    assert.equal(answer.text, given.join('').replace('"secret"', '"***"'));
  });

  test('that drops events drops their frames', async (t) => {
    const dropping = tapping(() => ({
      event: (event, emit) => (event.type === 'usage' || event.type === 'opaque' ? undefined : emit(event)),
    }));
    const { gateway } = await tapped(t, [dropping]);
    const answer = await send(gateway.url, asking);
    assert.equal(answer.text, [delta('one '), delta('two '), delta('three'), finish, done].join(''));
  });

  /** Keeps every text back until the end. */
  const holding = (): StreamTap => {
    const held: StreamEvent[] = [];
    return {
      event: (event, emit) => (event.type === 'text-delta' ? void held.push(event) : emit(event)),
      end: (emit) => held.forEach(emit),
    };
  };

  test('that holds text back gives it out before the end marker', async (t) => {
    const { gateway } = await tapped(t, [tapping(holding)]);
    const { text, complete } = await send(gateway.url, asking);
    assert.equal(said(text), 'one two three');
    assert.ok(text.endsWith(done) && complete);
    assert.equal(text.split('[DONE]').length, 2);
  });

  test('and at the end of a stream that has no end marker', async (t) => {
    const { gateway } = await tapped(t, [tapping(holding)], pieces(whole.slice(0, -1)));
    const { text } = await send(gateway.url, asking);
    assert.equal(said(text), 'one two three');
  });

  test('what it adds at the end is said although no text was', async (t) => {
    const adding = tapping(() => ({
      event: (event, emit) => emit(event),
      end: (emit) => emit({ type: 'text-delta', choice: 0, text: 'added' }),
    }));
    for (const given of [[role, finish, done], [done], []]) {
      const { gateway } = await tapped(t, [adding], pieces(given));
      const { text } = await send(gateway.url, asking);
      assert.equal(said(text), 'added');
      if (given.includes(role)) assert.match(text, /"model":"m-1".*added/s, 'it names the answer');
    }
  });

  test('held reasoning is not lost', async (t) => {
    const held: StreamEvent[] = [];
    const reasoning = frame({ id: 'c', choices: [{ index: 0, delta: { reasoning_content: 'thinking' } }] });
    const holdingBack = tapping(() => ({
      event: (event, emit) => (event.type === 'reasoning-delta' ? void held.push(event) : emit(event)),
      end: (emit) => held.forEach(emit),
    }));
    const { gateway } = await tapped(t, [holdingBack], pieces([role, reasoning, finish, done]));
    assert.match((await send(gateway.url, asking)).text, /"reasoning_content":"thinking"/);
  });

  test('several run nearest the provider first; the first in the file has the last word', async (t) => {
    const { gateway } = await tapped(
      t,
      [
        tapping(() => texts((text) => text.replace('b', 'c')), { stream: 'window' }, 'first'),
        tapping(() => texts((text) => text.replace('a', 'b')), { stream: 'window' }, 'second'),
      ],
      pieces([delta('a'), done]),
    );
    assert.equal((await send(gateway.url, asking)).text, delta('c') + done);
  });

  test('a compressed stream is decoded for it', async (t) => {
    const packed = zlib.gzipSync(whole.join(''));
    const { gateway } = await tapped(
      t,
      [tapping(() => texts((text) => text.toUpperCase()))],
      pieces([packed.subarray(0, 30), packed.subarray(30)], { 'content-encoding': 'gzip' }),
    );
    const answer = await send(gateway.url, asking);
    assert.equal(said(answer.text), 'ONE TWO THREE');
    assert.equal(answer.headers['content-encoding'], undefined);
    assert.equal((await gateway.untilSettled()).facts.usage?.totalTokens, 7);
  });

  test('a compressed stream that is torn is a failure, not an end', async (t) => {
    const packed = zlib.gzipSync(whole.join(''));
    const { gateway } = await tapped(
      t,
      [tapping(() => texts((text) => text))],
      pieces([packed.subarray(0, packed.length - 12)], { 'content-encoding': 'gzip' }),
    );
    const answer = await send(gateway.url, asking);
    assert.doesNotMatch(answer.text, /DONE/);
    assert.equal((await gateway.untilSettled()).outcome.error?.code, 'upstream_invalid');
  });

  test('runs on an event stream of an endpoint that is not modelled', async (t) => {
    const { gateway } = await tapped(t, [tapping(() => texts((text) => text.toUpperCase()))]);
    const answer = await send(gateway.url, { ...asking, path: '/v1/deployments/x/chat/completions' });
    assert.equal(said(answer.text), 'ONE TWO THREE');
  });

  test('only taps of plugins before the one that answers run', async (t) => {
    const upstream = await startUpstream(t, pieces(whole));
    const gateway = await startTestGateway(t, {
      plugins: [providerPlugin({ default: 'up' }), tapping(() => texts(() => 'never'))],
      providers: { up: { base_url: upstream.url } },
    });
    assert.equal((await send(gateway.url, asking)).text, whole.join(''));
  });

  test('a plugin may decline to tap a stream', async (t) => {
    const declining = definePlugin({
      name: 'declining',
      capabilities: { stream: 'window' },
      create: () => ({ stream: () => undefined }),
    });
    const { gateway } = await tapped(t, [declining]);
    assert.equal((await send(gateway.url, asking)).text, whole.join(''));
  });
});

describe('a tap that takes its time', () => {
  test('keeps the order', async (t) => {
    const later = tapping(() => ({
      async event(event, emit) {
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 5));
        emit(event);
      },
      end: () => Promise.resolve(),
    }));
    const { gateway } = await tapped(t, [later, tapping(() => texts((text) => text), {}, 'other')]);
    assert.equal((await send(gateway.url, asking)).text, whole.join(''));
  });

  test('pauses the provider meanwhile', async (t) => {
    const chunk = delta('x'.repeat(16 * 1024));
    let sent = 0;
    let goOn: (() => void) | undefined;
    const waiting = tapping(() => ({
      async event(event, emit) {
        if (goOn === undefined) await new Promise<void>((resolve) => (goOn = resolve));
        emit(event);
      },
    }));
    const total = 2000;
    const { gateway } = await tapped(t, [waiting], (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const go = (): void => {
        while (sent < total) {
          sent++;
          if (!response.write(chunk)) return void response.once('drain', go);
        }
        response.end();
      };
      go();
    });
    const answer = send(gateway.url, asking);
    await until(() => goOn !== undefined, 'the first event');
    let before = -1;
    while (before !== sent) {
      before = sent;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    assert.ok(sent < total, 'the provider was not paused');
    goOn?.();
    assert.equal((await answer).body.length, total * chunk.length);
  });

  test('is bounded by its timeout', async (t) => {
    const hanging = tapping(() => ({ event: () => new Promise<void>(() => undefined) }));
    const { gateway, upstream } = await tapped(
      t,
      [{ plugin: hanging, timeoutMs: 50 }],
      pieces([role], {}, 'hang'),
    );
    const answer = await send(gateway.url, asking);
    assert.deepEqual([answer.status, answer.json().error.code], [500, 'plugin_timeout']);
    await until(() => upstream.open.size === 0, 'the end of the call');
  });

  test('a client that leaves meanwhile ends it all', async (t) => {
    let entered = false;
    const hanging = tapping(
      () => ({
        event: () => {
          entered = true;
          return new Promise<void>(() => undefined);
        },
      }),
      { stream: 'observe' },
    );
    const { gateway, upstream } = await tapped(t, [hanging], pieces([role], {}, 'hang'));
    const { request } = await begin(gateway.url, asking);
    await until(() => entered, 'the event');
    request.destroy();
    assert.equal((await gateway.untilSettled()).outcome.kind, 'cancelled');
    await until(() => upstream.open.size === 0, 'the end of the call');
  });
});

describe('a tap that refuses', () => {
  const onText = (word: string): AnyPlugin =>
    tapping(() => ({
      event: (event, emit) =>
        event.type === 'text-delta' && event.text.includes(word) ? refuse() : emit(event),
    }));

  test('before the first byte: its own status, however late it comes', async (t) => {
    const refusing = tapping(() => ({
      async event() {
        await new Promise((resolve) => setTimeout(resolve, 250));
        refuse();
      },
    }));
    const { gateway, upstream } = await tapped(t, [refusing], pieces([role], {}, 'hang'));
    const answer = await send(gateway.url, asking);
    assert.deepEqual([answer.status, answer.json().error.type], [446, 'hooks_failed']);
    const { outcome } = await gateway.untilSettled();
    assert.deepEqual([outcome.kind, outcome.status, outcome.error?.plugin], ['refused', 446, 'tapping']);
    await until(() => upstream.open.size === 0, 'the end of the call');
  });

  test('later: an error event, and an end that is none', async (t) => {
    const { gateway, upstream } = await tapped(t, [onText('two')], pieces(whole, {}, 'hang'));
    const answer = await send(gateway.url, asking);
    assert.deepEqual([answer.status, answer.complete], [200, false]);
    assert.ok(answer.text.startsWith(whole.slice(0, 3).join('')));
    assert.match(answer.text, /data: \{"error":\{"message":"No\.".*\n\n$/);
    assert.doesNotMatch(answer.text, /two|DONE/);
    const { outcome } = await gateway.untilSettled();
    assert.deepEqual([outcome.kind, outcome.error?.code], ['refused', 'hooks_failed']);
    await until(() => upstream.open.size === 0, 'the end of the call');
  });

  test('at the end: held text does not leave', async (t) => {
    const judging = tapping(() => {
      let text = '';
      return {
        event: (event, emit) => (event.type === 'text-delta' ? void (text += event.text) : emit(event)),
        end: (emit) => (text.includes('three') ? refuse() : emit({ type: 'text-delta', choice: 0, text })),
      };
    });
    const { gateway } = await tapped(t, [judging]);
    const answer = await send(gateway.url, asking);
    assert.doesNotMatch(answer.text, /one|DONE/);
    assert.equal(answer.complete, false);
  });

  test('its refusal is seen by the response hooks of plugins before it, and by no other', async (t) => {
    const seen: string[] = [];
    const looking = (name: string): AnyPlugin =>
      definePlugin({
        name,
        capabilities: { stream: 'ignore' },
        create: () => ({ response: () => void seen.push(name) }),
      });
    for (const hook of ['event', 'stream'] as const) {
      seen.length = 0;
      const refusing = tapping(() => (hook === 'stream' ? refuse() : { event: () => refuse() }));
      const observing = tapping(() => texts((text) => text), { stream: 'observe' }, 'observing');
      const { gateway } = await tapped(t, [looking('before'), observing, refusing, looking('behind')]);
      assert.equal((await send(gateway.url, asking)).status, 446);
      assert.deepEqual(seen, ['before']);
    }
  });

  test('a failure of the provider is seen by all of them', async (t) => {
    const seen: string[] = [];
    const looking = (name: string): AnyPlugin =>
      definePlugin({
        name,
        capabilities: { stream: 'ignore' },
        create: () => ({ response: () => void seen.push(name) }),
      });
    const judging = tapping(() => ({ event: () => undefined }));
    const { gateway } = await tapped(t, [looking('a'), judging, looking('b')], pieces([role], {}, 'cut'));
    assert.equal((await send(gateway.url, asking)).status, 502);
    assert.deepEqual(seen, ['b', 'a']);
  });
});

describe('a tap that fails', () => {
  const failing = (): StreamTap => ({
    event(event, emit) {
      if (event.type === 'text-delta') throw new TypeError('a secret');
      emit(event);
    },
  });

  test('on_error skip: the stream passes', async (t) => {
    const { gateway } = await tapped(t, [{ plugin: tapping(failing), onError: 'skip' }]);
    assert.equal((await send(gateway.url, asking)).text, whole.join(''));
    assert.deepEqual(gateway.pluginErrors, Array(3).fill('tapping/stream'));
  });

  test('on_error skip: also when it fails later, and when it cannot even begin', async (t) => {
    const rejecting = tapping(() => ({ event: () => Promise.reject(new Error('broken')) }));
    const later = await tapped(t, [{ plugin: rejecting, onError: 'skip' }]);
    assert.equal((await send(later.gateway.url, asking)).text, whole.join(''));
    const throwing = tapping(() => {
      throw new Error('broken');
    });
    const never = await tapped(t, [{ plugin: throwing, onError: 'skip' }]);
    assert.equal((await send(never.gateway.url, asking)).text, whole.join(''));
  });

  test('on_error skip: what it emitted before it failed is not said twice', async (t) => {
    const halfway = tapping(() => ({
      event(event, emit) {
        emit(event);
        throw new Error('broken');
      },
    }));
    const { gateway } = await tapped(t, [{ plugin: halfway, onError: 'skip' }]);
    assert.equal((await send(gateway.url, asking)).text, whole.join(''));
  });

  test('on_error fail: 500 before the first byte, an error event later', async (t) => {
    const early = await tapped(t, [tapping(failing)], pieces([delta('a')]));
    const first = await send(early.gateway.url, asking);
    assert.deepEqual([first.status, first.json().error.code], [500, 'plugin_failed']);
    const late = await tapped(t, [tapping(failing)]);
    const second = await send(late.gateway.url, asking);
    assert.deepEqual([second.status, second.complete], [200, false]);
    assert.match(second.text, /plugin_failed/);
    assert.doesNotMatch(second.text, /secret/);
  });

  test('one that holds too much is stopped', async (t) => {
    const greedy = tapping(() => ({ event: () => undefined }));
    const large = delta('x'.repeat(1_000_000));
    const { gateway } = await tapped(t, [greedy], pieces(Array<string>(12).fill(large)));
    const answer = await send(gateway.url, asking);
    assert.match(answer.json().error.message, /"tapping" holds back more than 8388608 bytes/);
  });

  test('one that says more than it hears may not hold more for that', async (t) => {
    const chatty = tapping(() => {
      let first = true;
      return {
        event(_event, emit) {
          if (first) emit({ type: 'text-delta', choice: 0, text: 'y'.repeat(6_000_000) });
          first = false;
        },
      };
    });
    const large = delta('x'.repeat(1_000_000));
    const { gateway } = await tapped(t, [chatty], pieces([role, ...Array<string>(12).fill(large)]));
    assert.match((await send(gateway.url, asking)).text, /holds back more than/);
  });
});

describe('what a judging tap cannot read does not pass', () => {
  const judging = tapping(() => texts((text) => text));
  const observing = tapping(() => texts((text) => text), { stream: 'observe' });
  const holding = definePlugin({
    name: 'holding',
    capabilities: { stream: 'hold' },
    create: () => ({ response: () => undefined }),
  });
  const long = delta('secret '.repeat(defaultMaxFrameBytes / 7 + 1));
  const unread: readonly [string, readonly string[]][] = [
    ['a frame that is too long', [delta('a'), long.slice(0, 100), long.slice(100), done]],
    ['a torn frame at the end', [delta('a'), delta('secret').slice(0, -10)]],
    ['a frame that is no JSON', [delta('a'), 'data: {"choices":[{"delta":{"content":"secret"}}\n\n', done]],
  ];
  for (const [name, given] of unread) {
    for (const [kind, plugin] of [
      ['window', judging],
      ['hold', holding],
    ] as const) {
      test(`${name}, with a plugin that judges by ${kind}`, async (t) => {
        const { gateway } = await tapped(t, [plugin], pieces(given));
        const answer = await send(gateway.url, asking);
        assert.doesNotMatch(answer.text, /secret|DONE/);
        const { outcome } = await gateway.untilSettled();
        assert.deepEqual([outcome.kind, outcome.error?.code], ['failed', 'upstream_invalid']);
        assert.match(outcome.error?.message ?? '', new RegExp(plugin.name));
      });
    }

    test(`${name} passes one that only observes`, async (t) => {
      const { gateway } = await tapped(t, [observing], pieces(given));
      assert.equal((await send(gateway.url, asking)).text, given.join(''));
    });
  }

  test('a last frame without its blank line is read all the same', async (t) => {
    const upper = tapping(() => texts((text) => text.toUpperCase()));
    const text = await tapped(t, [upper], pieces([delta('a'), delta('b').trimEnd()]));
    assert.equal(said((await send(text.gateway.url, asking)).text), 'AB');
    const end = await tapped(t, [upper], pieces([delta('a'), 'data: [DONE]']));
    assert.equal((await send(end.gateway.url, asking)).text, `${delta('A')}data: [DONE]`);
  });

  test('a dialect without frames refuses the stream of a judging tap, and passes an observer', async (t) => {
    const body = { model: 'm', max_tokens: 1, stream: true, messages: [{ role: 'user', content: 'x' }] };
    const { frames, ...unread } = dialects.get('anthropic-messages') as Dialect;
    assert.ok(frames !== undefined);
    const without = { dialects: new Map(dialects).set('anthropic-messages', unread) };
    const judged = await tapped(t, [judging], undefined, without);
    const answer = await send(judged.gateway.url, { path: '/v1/messages', body });
    assert.equal(answer.status, 400);
    assert.match(answer.text, /"tapping\\" has to judge this stream/);
    assert.equal((await judged.gateway.untilSettled()).outcome.error?.code, 'not_supported');
    await until(() => judged.upstream.open.size === 0, 'the end of the call');
    const observed = await tapped(t, [observing], undefined, without);
    assert.match((await send(observed.gateway.url, { path: '/v1/messages', body })).text, /"text":"two "/);
  });

  test('an unknown compression refuses, too', async (t) => {
    const { gateway } = await tapped(t, [judging], pieces(['xyz'], { 'content-encoding': 'zstd' }));
    assert.equal((await send(gateway.url, asking)).json().error.code, 'not_supported');
    const observed = await tapped(t, [observing], pieces(['xyz'], { 'content-encoding': 'zstd' }));
    assert.equal((await send(observed.gateway.url, asking)).text, 'xyz');
  });
});
