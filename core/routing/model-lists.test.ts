import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import {
  brotliCompressSync,
  deflateSync,
  gunzipSync,
  gzipSync,
  inflateSync,
  brotliDecompressSync,
} from 'node:zlib';
import fc from 'fast-check';
import { send, type ReceivedRequest } from '../../tests/kit/http-kit.ts';
import { providerPlugin } from '../../tests/kit/gateway-kit.ts';
import auth from '../../plugins/auth/index.ts';
import { key } from '../../tests/kit/routing-kit.ts';
import { definePlugin, Type } from '../pipeline/plugin.ts';
import { asHeader, body as chat, refusal, started } from './stored-providers.test-support.ts';
import { integration, model, provider } from './stored-records.test-support.ts';

/** The list has one model. */
const ok = 'gpt-ok';
const bad = 'gpt-bad';
const named = { ...key, 'x-service-provider': '@mine' };
const upgrade = {
  connection: 'upgrade',
  upgrade: 'websocket',
  'sec-websocket-version': '13',
  'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
};

const listed = (t: TestContext, options: Parameters<typeof started>[2] = {}) =>
  started(
    t,
    [integration({ key: 'k' }, { allowAllModels: false, models: [model(ok)] }), provider()],
    options,
  );

interface Sent {
  readonly path: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer | string | undefined;
}

function multipart(fields: readonly (readonly [string, string])[], boundary = 'cut'): Sent['body'] {
  const parts = fields.map(
    ([head, value]) => `--${boundary}\r\ncontent-disposition: form-data; ${head}\r\n\r\n${value}\r\n`,
  );
  return `${parts.join('')}--${boundary}--\r\n`;
}

const form = { 'content-type': 'multipart/form-data; boundary=cut' };
const json = (value: object): string => JSON.stringify(value);

describe('a list of models', () => {
  const refused: readonly (readonly [string, Sent])[] = [
    [
      'JSON without a content type',
      { path: '/v1/audio/speech', body: json({ model: bad, input: 'x', voice: 'a' }) },
    ],
    [
      'JSON that calls itself text',
      {
        path: '/v1/videos',
        headers: { 'content-type': 'text/plain' },
        body: json({ model: bad, prompt: 'x' }),
      },
    ],
    [
      'a path with the version twice',
      { path: '/v1/v1/chat/completions', body: json({ ...chat, model: bad }) },
    ],
    [
      'the field of a form',
      { path: '/v1/audio/transcriptions', headers: form, body: multipart([['name="model"', bad]]) },
    ],
    [
      'a second field of that name',
      {
        path: '/v1/images/edits',
        headers: form,
        body: multipart([
          ['name="model"', ok],
          ['name="model"', bad],
        ]),
      },
    ],
    [
      'a form with another boundary than it says',
      { path: '/v1/images/edits', headers: form, body: multipart([['name="model"', ok]], 'other') },
    ],
    [
      'a form of two readings',
      {
        path: '/v1/images/edits',
        headers: form,
        body: `--cut\r\ncontent-disposition: form-data; name="x"\r\n\r\n\n--cut\ncontent-disposition: form-data; name="model"\n\n${bad}\r\n--cut--\r\n`,
      },
    ],
    [
      'a batch',
      { path: '/v1/batches', body: json({ input_file_id: 'f', endpoint: '/v1/chat/completions' }) },
    ],
    ['a run of an assistant', { path: '/v1/threads/runs', body: json({ assistant_id: 'a', thread: {} }) }],
    ['a run that names it', { path: '/v1/threads/t/runs', body: json({ assistant_id: 'a', model: bad }) }],
    [
      'the path of a deployment',
      { path: '/v1/deployments/gpt-bad/chat/completions', body: json({ ...chat, model: ok }) },
    ],
    ['an encoded path', { path: '/v1/x%2Fdeployments%2Fgpt-bad', body: json({ ...chat, model: ok }) }],
    [
      'the path of Gemini',
      { path: '/v1beta/models/gpt-bad:generateContent', body: json({ contents: [], model: ok }) },
    ],
    [
      'another case in that path',
      { path: '/v1beta/Models/gpt-bad:generateContent', body: json({ contents: [], model: ok }) },
    ],
    ['the path of Bedrock', { path: '/v1/model/gpt-bad/invoke', body: json({ model: ok }) }],
    ['the query', { path: '/v1/realtime/calls?model=gpt-bad', body: json({ model: ok }) }],
    [
      'a session within the body',
      { path: '/v1/realtime/client_secrets', body: json({ session: { model: bad } }) },
    ],
    [
      'a list of fallbacks',
      { path: '/v1/chat/completions', body: json({ ...chat, model: ok, models: [ok, bad] }) },
    ],
    [
      'the model of a tool',
      {
        path: '/v1/responses',
        body: json({ model: ok, input: 'x', tools: [{ type: 'image_generation', model: bad }] }),
      },
    ],
    [
      'a batch of messages',
      {
        path: '/v1/messages/batches',
        body: json({ requests: [{ params: { model: ok } }, { params: { model: bad } }] }),
      },
    ],
    ['JSON with a comment', { path: '/v1/videos', body: `{"model":"${ok}"} // {"model":"${bad}"}` }],
    [
      'another charset',
      {
        path: '/v1/videos',
        headers: { 'content-type': 'application/json; charset=utf-7' },
        body: json({ model: ok }),
      },
    ],
    ['WebSocket', { path: '/v1/realtime?model=gpt-bad', headers: upgrade }],
    ['a second model of WebSocket', { path: '/v1/realtime?model=gpt-ok&model=gpt-bad', headers: upgrade }],
    ['WebSocket without a model', { path: '/v1/realtime', headers: upgrade }],
    ['WebSocket whose messages name it', { path: '/v1/responses?model=gpt-ok', headers: upgrade }],
  ];
  test('refuses a model wherever it is said, and a request whose model nobody can tell', async (t) => {
    const { gateway, upstream } = await listed(t);
    for (const [what, { headers, ...one }] of refused) {
      const answer = await send(gateway.url, { ...one, headers: { ...named, ...headers } });
      assert.equal(answer.status, 403, `${what}: ${answer.text}`);
      assert.match(answer.text, /does not allow|allows only/, what);
    }
    assert.equal(upstream.requests.length, 0);
  });

  const passed: readonly (readonly [string, Sent])[] = [
    [
      'JSON without a content type',
      { path: '/v1/audio/speech', body: json({ model: ok, input: 'x', voice: 'a' }) },
    ],
    [
      'a form',
      {
        path: '/v1/audio/transcriptions',
        headers: { 'content-type': 'multipart/form-data; boundary="cut"' },
        body: multipart([
          ['name="model"', ok],
          ['name="file"; filename="a.wav"', 'RIFF{"model":'],
        ]),
      },
    ],
    [
      'a video',
      { path: '/v1/videos', headers: { 'content-type': '' }, body: json({ model: ok, prompt: 'x' }) },
    ],
    ['a run that names it', { path: '/v1/threads/runs', body: json({ assistant_id: 'a', model: ok }) }],
    [
      'a file, which runs nothing',
      { path: '/v1/files', headers: form, body: multipart([['name="purpose"', 'batch']]) },
    ],
    ['a list', { path: '/v1/files', method: 'GET' }],
    ['the end of a batch', { path: '/v1/batches/b/cancel', method: 'POST' }],
    ['the path of Gemini', { path: '/v1beta/models/gpt-ok:countTokens', body: json({ contents: [] }) }],
    ['a deployment', { path: '/v1/deployments/gpt-ok/images/edits', body: json({ prompt: 'x' }) }],
    [
      'sound to a model of the query',
      { path: '/v1/listen?model=gpt-ok', headers: { 'content-type': 'audio/wav' }, body: 'RIFF' },
    ],
    ['WebSocket', { path: '/v1/realtime?model=gpt-ok', headers: upgrade }],
  ];
  test('lets pass what asks for its models, and what runs none', async (t) => {
    const { gateway, upstream } = await listed(t);
    for (const [what, { headers, ...one }] of passed) {
      const before = upstream.requests.length;
      const answer = await send(gateway.url, { ...one, headers: { ...named, ...headers } });
      assert.equal(upstream.requests.length, before + 1, `${what}: ${answer.status} ${answer.text}`);
      const got = upstream.requests.at(-1) as ReceivedRequest;
      if (one.body !== undefined) assert.equal(got.body.toString(), one.body, what);
    }
  });

  test('holds for what hooks and configs make of the request', async (t) => {
    const { ask, upstream } = await listed(t);
    const config = asHeader({ provider: '@mine', override_params: { model: bad } });
    assert.equal(refusal(await ask(config, { ...chat, model: ok })).code, 'model_not_allowed');
    assert.equal(upstream.requests.length, 0);
  });

  test('holds for what a hook would answer from its memory', async (t) => {
    const answers = definePlugin({
      name: 'memory',
      schema: Type.Object({}),
      create: () => ({
        attempt: () => ({ status: 200, headers: [], body: Buffer.from('kept'), source: 'gateway' }),
      }),
    });
    const { ask } = await listed(t, { plugins: [auth, answers, providerPlugin()] });
    const header = { 'x-service-provider': '@mine' };
    assert.equal((await ask(header, { ...chat, model: ok })).text, 'kept');
    assert.equal(refusal(await ask(header, { ...chat, model: bad })).code, 'model_not_allowed');
  });
});

const names = fc.constantFrom(ok, bad);
const types = fc.constantFrom(
  ...[
    'application/json',
    'text/plain',
    'application/octet-stream',
    'application/x-www-form-urlencoded',
    'audio/wav',
  ],
  ...[
    'multipart/form-data; boundary=cut',
    'multipart/form-data; boundary="cut"',
    'multipart/mixed; boundary=cut',
  ],
  ...[
    'multipart/form-data; boundary=cut; boundary=other',
    'application/json; charset=utf-16',
    'application/x-ndjson',
    '',
  ],
);
const paths = fc.oneof(
  fc.constantFrom(
    ...[
      '/v1/chat/completions',
      '/v1/embeddings',
      '/v1/audio/speech',
      '/v1/audio/transcriptions',
      '/v1/videos',
    ],
    ...[
      '/v1/images/edits',
      '/v1/batches',
      '/v1/threads/runs',
      '/v1/v1/chat/completions',
      '/v1/Chat//Completions',
    ],
    ...['/v1/responses', '/v1/messages', '/v1/realtime/calls', '/v1/rerank', '/v1/anything'],
  ),
  fc
    .tuple(
      names,
      fc.constantFrom(
        ...[
          '/v1/deployments/NAME/chat/completions',
          '/v1beta/models/NAME:generateContent',
          '/v1/model/NAME/invoke',
        ],
        ...[
          '/v1/engines/NAME/completions',
          '/v1/videos?model=NAME',
          '/v1/videos?a=1;model=NAME',
          '/v1/Models/NAME',
        ],
        ...[
          '/v1/models/NAME:predict',
          '/v1/x?deployment=NAME',
          '/v1%2Fdeployments%2FNAME/x',
          '/v1/x?mod%65l=NAME',
        ],
      ),
    )
    .map(([name, path]) => path.replace('NAME', name)),
);
const members = fc
  .tuple(
    fc.array(names, { maxLength: 2 }),
    fc.constantFrom('model', 'Model', 'models', 'session', 'tools', 'requests'),
    fc.boolean(),
  )
  .map(([[first, second], place, twice]) => {
    const values = {
      session: { model: second },
      tools: [{ type: 'x', model: second }],
      requests: [{ model: second }],
    };
    const inner =
      place in values ? values[place as keyof typeof values] : place === 'models' ? [second] : second;
    const parts = first === undefined ? [] : [`"model":${json([first]).slice(1, -1)}`];
    if (twice && second !== undefined) parts.push(`${JSON.stringify(place)}:${JSON.stringify(inner)}`);
    return `{${[...parts, '"messages":[{"role":"user","content":"hi"}]', '"input":"x"', '"max_tokens":5'].join(',')}}`;
  });
const fieldHeads = fc.constantFrom(
  ...['name="model"', 'name=model', 'name="Model"', 'filename="x"; name="model"', 'name="x"; name="model"'],
  ...['name="x"; filename="\\"; name=\\"model"', "name*=utf-8''model", 'name="mod%65l"'],
);
const forms = fc
  .tuple(
    fc.array(fc.tuple(fieldHeads, names), { maxLength: 3 }),
    fc.constantFrom('cut', 'other'),
    fc.constantFrom('\r\n', '\n'),
  )
  .map(([fields, boundary, end]) => String(multipart(fields, boundary)).replaceAll('\r\n', end));
const lines = fc
  .tuple(names, fc.constantFrom('model=NAME', 'a=1&model=NAME', 'a=1;model=NAME', 'mod%65l=NAME'))
  .map(([name, text]) => text.replace('NAME', name));
const polyglots = fc
  .tuple(names, names)
  .map(([one, two]) => json({ model: one, messages: [], a: `&model=${two}&` }));
const comments = fc.tuple(members, members).map(([one, two]) => `${one}\n${two}`);
const codings = fc.constantFrom<readonly [string, (bytes: Buffer) => Buffer, (bytes: Buffer) => Buffer]>(
  ['', (bytes) => bytes, (bytes) => bytes],
  ['gzip', gzipSync, gunzipSync],
  ['deflate', deflateSync, inflateSync],
  ['br', brotliCompressSync, brotliDecompressSync],
);

test('no request reaches a provider with a model that its list does not have, whatever says it and however', async (t) => {
  const { gateway, upstream } = await listed(t);
  let reached = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        path: paths,
        type: types,
        body: fc.oneof(members, forms, lines, polyglots, comments),
        coding: codings,
      }),
      async ({ path, type, body, coding: [coding, encode, decode] }) => {
        const headers: Record<string, string> = { ...named, 'content-type': type };
        if (type === '') delete headers['content-type'];
        if (coding !== '') headers['content-encoding'] = coding;
        const before = upstream.requests.length;
        await send(gateway.url, { path, method: 'POST', headers, body: encode(Buffer.from(body)) });
        const got = upstream.requests[before];
        if (got === undefined) return;
        reached += 1;
        const isEncoded = got.headers['content-encoding'] !== undefined;
        const text = `${got.url} ${(isEncoded ? decode(got.body) : got.body).toString()}`;
        // What looks like a form within a text of JSON is read as one only where the type says so.
        const seen = type.includes('urlencoded') ? text : text.replace(/"a":"[^"]*"/, '');
        assert.ok(!seen.includes(bad), `${type} ${text}`);
        assert.ok(text.includes(ok), `${type} ${text}`);
      },
    ),
    { numRuns: 500 },
  );
  assert.ok(reached > 20, `only ${reached} of the requests were let through`);
});
