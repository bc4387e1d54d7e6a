import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { providerPlugin, startTestGateway } from '../../tests/kit/gateway-kit.ts';
import { send, startUpstream } from '../../tests/kit/http-kit.ts';
import { TestContext } from '../../tests/kit/plugin-kit.ts';
import { ChangedBody } from './request-body.ts';
import { jsonRefusal } from './json-guard.ts';
import { definePlugin, type AttemptContext, type JsonPath, type JsonValue } from './plugin.ts';

async function bodies(text: string) {
  const { body } = new TestContext({ body: text });
  await body.load();
  return { base: body, own: new ChangedBody(body) };
}

describe('the body of an attempt', () => {
  test('is the request’s until it is changed, byte for byte', async () => {
    const { base, own } = await bodies('{ "a":1 }');
    assert.equal(own.bytes, base.bytes);
    assert.equal(own.outgoing, base.outgoing);
    assert.deepEqual([own.changed, own.loaded, own.text, own.json], [false, true, '{ "a":1 }', { a: 1 }]);
    base.set(['a'], 2);
    assert.equal(own.text, '{ "a":2 }');
  });

  test('changes alone, and leaves every other attempt as it was', async () => {
    const { base, own } = await bodies('{ "a":1, "big":9223372036854775807, "b":[{"c":"x"}] }');
    const other = new ChangedBody(base);
    own.set(['b', 0, 'c'], 'y');
    own.set(['d'], null);
    own.remove(['a']);
    assert.equal(own.text, '{ "big":9223372036854775807, "b":[{"c":"y"}],"d":null }');
    assert.equal(own.outgoing.toString(), own.text);
    assert.deepEqual(own.json, { big: 9223372036854775807n, b: [{ c: 'y' }], d: null });
    assert.deepEqual([base.changed, other.changed, own.changed], [false, false, true]);
    assert.deepEqual(base.json, { a: 1, big: 9223372036854775807n, b: [{ c: 'x' }] });
    assert.equal(other.text, base.text);
  });

  test('replaces many values in one pass', async () => {
    const { own } = await bodies('{"a":"1", "b" : [ "2", {"c":"3"} ],"é":"4"}');
    own.replaceAll([
      { path: ['b', 1, 'c'], value: { long: 'x' } },
      { path: ['a'], value: 'A' },
      { path: ['é'], value: ['ü'] },
      { path: ['b', 0], value: 2 },
    ]);
    assert.equal(own.text, '{"a":"A", "b" : [ 2, {"c":{"long":"x"}} ],"é":["ü"]}');
    assert.deepEqual(own.json, JSON.parse(own.text));
    own.replaceAll([]);
    own.set(['a'], 'B');
    assert.match(own.bytes.toString(), /^\{"a":"B"/);
  });

  test('refuses places that are missing or lie within each other, and then stays as it was', async () => {
    const { own } = await bodies('{"a":{"b":1},"c":[1]}');
    const impossible: readonly (readonly JsonPath[])[] = [
      [['x']],
      [['a', 'x']],
      [['c', 1]],
      [['a'], ['a', 'b']],
      [[]],
    ];
    for (const paths of impossible) {
      assert.throws(
        () => own.replaceAll(paths.map((path) => ({ path, value: 0 }))),
        RangeError,
        paths.join(' '),
      );
    }
    assert.throws(() => own.set(['x', 'y'], 1), RangeError);
    own.remove(['x']);
    assert.equal(own.changed, false);
    const none = await bodies('no json');
    assert.throws(() => none.own.set(['a'], 1), { code: 'invalid_json' });
  });

  test('its parsed form is that of its text, whatever is changed', async () => {
    const json = fc.letrec<{ value: JsonValue }>((tie) => ({
      value: fc.oneof(
        { maxDepth: 3 },
        fc.string(),
        fc.integer(),
        fc.array(tie('value'), { maxLength: 4 }),
        fc.dictionary(fc.string(), tie('value'), { maxKeys: 4, noNullPrototype: true }),
      ),
    })).value;
    // Of the outermost members, names that differ in case alone are refused: these have none.
    const name = fc.string().map((text) => text.toLowerCase());
    await fc.assert(
      fc.asyncProperty(
        fc.dictionary(name, json, { minKeys: 1, noNullPrototype: true }),
        json,
        fc.nat(),
        async (document, value, pick) => {
          // Other spellings of what rules read are refused.
          fc.pre(
            jsonRefusal(Buffer.from(JSON.stringify(document)), { maxMembers: 1000, maxDepth: 100 }) ===
              undefined,
          );
          const { own } = await bodies(JSON.stringify(document));
          const paths = leaves(document, []);
          const path = paths[pick % paths.length] as JsonPath;
          if (path.length === 0) return;
          own.replaceAll([{ path, value }]);
          assert.deepEqual(own.json, JSON.parse(own.text));
        },
      ),
      { numRuns: 200 },
    );
  });
});

function leaves(value: JsonValue, path: JsonPath): JsonPath[] {
  if (typeof value !== 'object' || value === null) return [path];
  const entries = Array.isArray(value) ? [...value.entries()] : Object.entries(value);
  return [path, ...entries.flatMap(([key, member]) => leaves(member, [...path, key]))];
}

const messages = [{ role: 'user', content: 'hi' }];

describe('an attempt hook that changes the body', () => {
  const changing = (attempt: (context: AttemptContext) => void) =>
    definePlugin({ name: 'changing', create: () => ({ attempt }) });

  test('changes what the provider gets, seen by the later hooks, and not what the log keeps', async (t) => {
    const upstream = await startUpstream(t, (_request, response) => response.end('{}'));
    let later: unknown;
    const gateway = await startTestGateway(t, {
      plugins: [
        changing(({ attempt }) => attempt.body.set(['user'], 'me')),
        changing(({ attempt, body }) => void (later = [attempt.body.json, body.json])),
        providerPlugin({ default: 'up' }),
      ],
      providers: { up: { base_url: upstream.url } },
    });
    const body = { model: 'm', messages };
    const headers = { 'content-encoding': 'gzip' };
    await send(gateway.url, { path: '/v1/chat/completions', headers, body: gzipSync(JSON.stringify(body)) });
    const [request] = upstream.requests;
    assert.deepEqual(JSON.parse(String(request?.body)), { ...body, user: 'me' });
    assert.equal(request?.headers['content-encoding'], undefined);
    assert.equal(request?.headers['content-length'], String(request?.body.length));
    assert.deepEqual(later, [{ ...body, user: 'me' }, body]);
    const { outcome, facts } = await gateway.untilSettled();
    assert.deepEqual(JSON.parse(String(outcome.requestBody)), body);
    assert.equal(facts.requestBytes, request?.body.length);
  });

  test('goes together with the usage that is asked for on the client’s behalf', async (t) => {
    const upstream = await startUpstream(t, (_request, response) => response.end('{}'));
    const gateway = await startTestGateway(t, {
      plugins: [
        changing(({ attempt }) => attempt.body.set(['user'], 'me')),
        providerPlugin({ default: 'up' }),
      ],
      providers: { up: { base_url: upstream.url } },
    });
    const body = { model: 'm', messages, stream: true };
    await send(gateway.url, { path: '/v1/chat/completions', body });
    const sent = JSON.parse(String(upstream.requests[0]?.body)) as object;
    assert.deepEqual(sent, { ...body, user: 'me', stream_options: { include_usage: true } });
  });

  test('finds the body in memory where it declares that it reads it', async (t) => {
    const upstream = await startUpstream(t, (_request, response) => response.end('{}'));
    const reading = definePlugin({
      name: 'reading',
      capabilities: { reads: ['request.json'] },
      create: () => ({ attempt: ({ attempt }) => attempt.body.set(['seen'], true) }),
    });
    const gateway = await startTestGateway(t, {
      plugins: [reading, providerPlugin({ default: 'up' })],
      providers: { up: { base_url: upstream.url } },
    });
    const headers = { 'content-type': 'application/json' };
    await send(gateway.url, { path: '/v1/anything', method: 'POST', headers, body: { a: 1 } });
    assert.equal(String(upstream.requests[0]?.body), '{"a":1,"seen":true}');
  });

  test('is held against the bound of all bodies', async (t) => {
    const upstream = await startUpstream(t, (_request, response) => response.end('{}'));
    const gateway = await startTestGateway(t, {
      plugins: [changing(({ attempt }) => attempt.body.hold(2_000)), providerPlugin({ default: 'up' })],
      providers: { up: { base_url: upstream.url } },
      server: { max_buffered_bytes: 2_080 },
    });
    const chat = { path: '/v1/chat/completions', body: { model: 'm', messages } };
    assert.equal((await send(gateway.url, chat)).status, 200);
    const long = { ...chat.body, user: 'x'.repeat(50) };
    const refused = await send(gateway.url, { ...chat, body: long });
    assert.deepEqual([refused.status, refused.json().error.code], [503, 'overloaded']);
    assert.equal(upstream.requests.length, 1);
    await gateway.untilSettled(2);
    assert.equal(gateway.gateway.bufferedBytes, 0);
  });
});
