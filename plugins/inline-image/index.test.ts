import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { describe, test, type TestContext as NodeTestContext } from 'node:test';
import { createGuardedFetch } from '../../adapters/guarded-fetch/guarded-fetch.ts';
import { systemClock } from '../../core/ports/clock.ts';
import { ChangedBody } from '../../core/pipeline/request-body.ts';
import { providerPlugin, startTestGateway, type TestGatewayOptions } from '../../tests/kit/gateway-kit.ts';
import { connect, send, startUpstream, until, type Answering } from '../../tests/kit/http-kit.ts';
import { optionErrors, TestContext, testScope } from '../../tests/kit/plugin-kit.ts';
import guardrails from '../guardrails/index.ts';
import inlineImage, { type InlineImageOptions } from './index.ts';

const png = Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), Buffer.alloc(1_000, 7)]);
const jpeg = Buffer.concat([Buffer.from([0xff, 0xd8, 0xff]), Buffer.alloc(500, 9)]);
const dataUrl = (bytes: Buffer, type: string) => `data:${type};base64,${bytes.toString('base64')}`;

const serve =
  (bytes: Buffer | string, type: string): Answering =>
  (_request, response) =>
    void response.writeHead(200, { 'content-type': type }).end(bytes);

interface Options {
  readonly options?: Readonly<Record<string, unknown>>;
  readonly images?: Answering;
  /** The provider answers with an empty object by default. */
  readonly answers?: Answering;
  readonly gateway?: TestGatewayOptions;
}

/** A gateway with the plugin, a provider, and a server of images that it trusts. */
async function inlining(
  t: NodeTestContext,
  {
    options = {},
    images = serve(png, 'image/png'),
    answers = serve('{}', 'application/json'),
    gateway,
  }: Options = {},
) {
  const provider = await startUpstream(t, answers);
  const server = await startUpstream(t, images);
  const weir = await startTestGateway(t, {
    plugins: [{ plugin: inlineImage, options }, providerPlugin({ default: 'up' })],
    providers: {
      up: { base_url: provider.url, api_key: 'held', also_speaks: ['openai-responses'] },
      claude: {
        base_url: provider.url,
        api_key: 'held',
        dialect: 'anthropic-messages',
        also_speaks: ['openai-chat'],
        service: 'anthropic',
      },
    },
    guardedFetch: createGuardedFetch({
      log: testScope().scope.log,
      clock: systemClock,
      trustedHosts: [server.host],
      resolve: (name) =>
        name === 'inside.example.com'
          ? Promise.resolve([{ address: '127.0.0.1', family: 4 }])
          : Promise.reject(Object.assign(new Error('no such name'), { code: 'ENOTFOUND' })),
    }),
    ...gateway,
  });
  const received = () => JSON.parse(String(provider.requests.at(-1)?.body));
  return { weir, provider, server, received };
}

const image = (url: string) => ({ type: 'image_url', image_url: { url } });
const chat = (...urls: string[]) => ({
  path: '/v1/chat/completions',
  body: {
    model: 'm',
    seed: 1,
    messages: [{ role: 'user', content: [{ type: 'text', text: 'hi' }, ...urls.map(image)] }],
  },
});
/** The URLs of the images that the provider got. */
const urlsOf = (body: any): string[] =>
  body.messages[0].content.slice(1).map((part: any) => part.image_url.url);

describe('inline-image sends images themselves', () => {
  test('chat completions: as data URLs, everything else as it was', async (t) => {
    const { weir, server, received } = await inlining(t);
    const { path, body } = chat(`${server.url}/a.png`, 'data:image/gif;base64,AAAA');
    assert.equal((await send(weir.url, { path, body })).status, 200);
    const expected = structuredClone(body) as any;
    expected.messages[0].content[1].image_url.url = dataUrl(png, 'image/png');
    assert.deepEqual(received(), expected);
    assert.deepEqual([server.requests.length, server.requests[0]?.url], [1, '/a.png']);
    // The log keeps what the client sent.
    const { outcome } = await weir.untilSettled();
    assert.deepEqual(JSON.parse(String(outcome.requestBody)), body);
    await until(() => weir.gateway.bufferedBytes === 0, 'the memory is given back');
  });

  test('responses: as data URLs', async (t) => {
    const { weir, server, received } = await inlining(t);
    const part = { type: 'input_image', image_url: `${server.url}/a` };
    const body = { model: 'm', input: [{ role: 'user', content: [part] }] };
    assert.equal((await send(weir.url, { path: '/v1/responses', body })).status, 200);
    assert.equal(received().input[0].content[0].image_url, dataUrl(png, 'image/png'));
  });

  test('messages: as base64 sources', async (t) => {
    const { weir, server, received } = await inlining(t, { images: serve(jpeg, 'image/jpeg') });
    const part = { type: 'image', source: { type: 'url', url: `${server.url}/a` } };
    const body = { model: 'm', max_tokens: 5, messages: [{ role: 'user', content: [part] }] };
    const headers = { 'x-service-provider': 'claude' };
    assert.equal((await send(weir.url, { path: '/v1/messages', headers, body })).status, 200);
    const source = { type: 'base64', media_type: 'image/jpeg', data: jpeg.toString('base64') };
    assert.deepEqual(received().messages[0].content[0], { type: 'image', source });
  });

  test('the bytes say what they are, not their server', async (t) => {
    const { weir, server, received } = await inlining(t, { images: serve(jpeg, 'text/html') });
    await send(weir.url, chat(server.url));
    assert.deepEqual(urlsOf(received()), [dataUrl(jpeg, 'image/jpeg')]);
  });

  test('one URL is fetched once, however often it is named', async (t) => {
    const { weir, server, received } = await inlining(t);
    await send(weir.url, chat(...Array<string>(5).fill(`${server.url}/a`), `${server.url}/b`));
    assert.deepEqual(urlsOf(received()), Array(6).fill(dataUrl(png, 'image/png')));
    assert.deepEqual(server.requests.map(({ url }) => url).sort(), ['/a', '/b']);
  });

  test('eight at once, and never more', async (t) => {
    const waiting: ServerResponse[] = [];
    const { weir, server, received } = await inlining(t, {
      images: (_request, response) => void waiting.push(response),
    });
    const answer = send(weir.url, chat(...Array.from({ length: 11 }, (_, i) => `${server.url}/${i}`)));
    await until(() => waiting.length === 8, 'eight requests');
    assert.equal(server.open.size, 8);
    waiting.shift()?.end(png);
    await until(() => waiting.length === 8, 'the next one');
    for (let done = 0; done < 10; done++) {
      await until(() => waiting.length > 0, 'another');
      waiting.shift()?.end(png);
    }
    assert.equal((await answer).status, 200);
    assert.equal(urlsOf(received()).filter((url) => url.startsWith('data:')).length, 11);
  });

  test('bodies of other endpoints are not even read', async (t) => {
    const { weir, server, provider } = await inlining(t);
    const { body } = chat(`${server.url}/a`);
    for (const path of ['/v1/embeddings', '/v1/anything'])
      await send(weir.url, { path, body: { ...body, input: 'x' } });
    assert.deepEqual([server.requests.length, provider.requests.length], [0, 2]);
  });
});

describe('inline-image: which providers', () => {
  const cases: readonly [string, string[] | undefined, string, boolean][] = [
    ['all without the option', undefined, 'up', true],
    ['a listed one', ['other', 'up'], 'up', true],
    ['a listed slug', ['@up'], '@up', true],
    ['a slug listed by its name', ['up'], '@up', true],
    ['a listed kind', ['anthropic'], 'claude', true],
    ['not an unlisted one', ['anthropic'], 'up', false],
  ];
  for (const [name, providers, provider, inlines] of cases) {
    test(name, async (t) => {
      const { weir, server, received } = await inlining(t, { options: providers ? { providers } : {} });
      const headers = { 'x-service-provider': provider };
      await send(weir.url, { ...chat(`${server.url}/a`), headers });
      assert.equal(urlsOf(received())[0]?.startsWith('data:'), inlines);
      assert.equal(server.requests.length, inlines ? 1 : 0);
    });
  }
});

describe('inline-image: images that cannot be sent', () => {
  const big: Answering = (_request, response) => {
    const timer = setInterval(() => response.write(png), 1);
    response.on('close', () => clearInterval(timer));
  };
  const cases: readonly [string, Answering, string, string, RegExp][] = [
    [
      'not found',
      (_, response) => void response.writeHead(404).end(png),
      '',
      'fetch_failed',
      /does not answer with an image/,
    ],
    ['no image', serve('<svg/>', 'image/png'), '', 'fetch_failed', /is no PNG, JPEG/],
    ['empty', serve('', 'image/png'), '', 'fetch_failed', /is no PNG, JPEG/],
    ['too large', big, '', 'fetch_failed', /larger than 5000 bytes/],
    ['silent', () => undefined, '', 'fetch_failed', /within \d+ ms/],
    [
      'private',
      serve(png, 'image/png'),
      'http://192.168.0.1/a?secret',
      'address_refused',
      /192\.168\.0\.1.*trusted_hosts/,
    ],
    [
      'metadata',
      serve(png, 'image/png'),
      'http://169.254.169.254/?secret',
      'address_refused',
      /trusted_hosts/,
    ],
    [
      'a name that leads inside',
      serve(png, 'image/png'),
      'https://inside.example.com/a?secret',
      'address_refused',
      /not public/,
    ],
    [
      'unknown',
      serve(png, 'image/png'),
      'https://nobody.example.com/a?secret',
      'fetch_failed',
      /name is unknown/,
    ],
    [
      'redirected inside',
      (_, response) => void response.writeHead(302, { location: 'http://127.0.0.1:9/?secret' }).end(),
      '',
      'address_refused',
      /127\.0\.0\.1:9/,
    ],
    ['no URL', serve(png, 'image/png'), 'https://[::1', 'address_refused', /no URL/],
  ];
  for (const [name, images, named, code, message] of cases) {
    const options = { maxSizeBytes: 5_000, timeoutMs: name === 'silent' ? 150 : 5_000 };
    const place = 'messages[0].content[1].image_url.url';

    test(`${name}: its URL stays, and the log warns`, async (t) => {
      const { weir, server, received } = await inlining(t, { options, images });
      const url = named || `${server.url}/a?secret`;
      assert.equal((await send(weir.url, chat(url))).status, 200);
      assert.deepEqual(urlsOf(received()), [url]);
      const [line] = weir.lines.filter(({ level }) => level === 'warn');
      assert.match(String(line?.message), /could not be fetched/);
      const said = JSON.stringify(line);
      assert.ok(said.includes(place));
      assert.match(said, message);
      assert.doesNotMatch(said, /secret/);
    });

    test(`${name}, failOnError: refused, with its place`, async (t) => {
      const { weir, server, provider } = await inlining(t, {
        options: { ...options, failOnError: true },
        images,
      });
      const answer = await send(weir.url, chat(named || `${server.url}/a?secret`));
      const { error } = answer.json();
      assert.deepEqual([answer.status, error.code, error.param], [400, code, place]);
      assert.match(
        error.message,
        /^The image at messages\[0\]\.content\[1\]\.image_url\.url cannot be sent inline/,
      );
      assert.match(error.message, message);
      assert.doesNotMatch(error.message, /secret/);
      assert.equal(provider.requests.length, 0);
    });
  }

  test('the others are sent all the same', async (t) => {
    const images: Answering = (request, response) =>
      void (request.url === '/bad' ? response.writeHead(500).end() : response.end(png));
    const { weir, server, received } = await inlining(t, { images });
    await send(weir.url, chat(`${server.url}/bad`, `${server.url}/good`));
    assert.deepEqual(urlsOf(received()), [`${server.url}/bad`, dataUrl(png, 'image/png')]);
  });

  test('more than 64 of them', async (t) => {
    const { weir, server, received } = await inlining(t);
    await send(weir.url, chat(...Array.from({ length: 66 }, (_, i) => `${server.url}/${i % 2}`)));
    const left = urlsOf(received()).filter((url) => !url.startsWith('data:'));
    assert.deepEqual(left, [`${server.url}/0`, `${server.url}/1`]);
    assert.match(JSON.stringify(weir.lines), /Only 64 images/);
  });

  test('more bytes than the gateway may hold', async (t) => {
    const gateway = { server: { max_buffered_bytes: 1_000 } };
    const { weir, server, received } = await inlining(t, { gateway });
    const url = `${server.url}/a`;
    assert.equal((await send(weir.url, chat(url))).status, 200);
    assert.deepEqual(urlsOf(received()), [url]);
    assert.match(JSON.stringify(weir.lines), /holds as many request bodies as it may/);
    const strict = await inlining(t, { gateway, options: { failOnError: true } });
    const refused = await send(strict.weir.url, chat(`${strict.server.url}/a`));
    assert.deepEqual([refused.status, refused.json().error.code], [503, 'overloaded']);
    assert.equal(refused.headers['retry-after'], '1');
  });
});

test('inline-image: a client that leaves ends the fetches, and nothing is sent', async (t) => {
  const { weir, server, provider } = await inlining(t, { images: () => undefined });
  const body = JSON.stringify(chat(`${server.url}/a`).body);
  const client = await connect(t, weir.port);
  client.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  );
  await until(() => server.requests.length === 1, 'the fetch');
  client.socket.destroy();
  await until(() => server.requests[0]?.cut === true, 'the fetch has ended');
  assert.equal((await weir.untilSettled()).outcome.kind, 'cancelled');
  assert.equal(provider.requests.length, 0);
});

/** The URLs that a provider would get in attempts at these providers, one after another. */
async function attempts(
  options: InlineImageOptions,
  { bytes, urls, providers }: { bytes: Buffer; urls: readonly string[]; providers: readonly string[] },
) {
  const fetched: string[] = [];
  const scope = testScope({
    guardedFetch: {
      fetch({ url }) {
        fetched.push(url);
        return { answer: Promise.resolve({ status: 200, headers: [], body: bytes }), abort: () => undefined };
      },
    },
  }).scope;
  const hooks = await inlineImage.create(options, scope);
  const context = new TestContext({ body: chat(...urls).body });
  await context.body.load();
  const sent: string[][] = [];
  for (const [index, provider] of providers.entries()) {
    const body = new ChangedBody(context.body);
    const attempt = {
      number: index + 1,
      provider,
      aiService: provider,
      model: 'm',
      target: provider,
      body,
      cache: undefined,
      guardrails: undefined,
      deployment: '',
      terms: '',
      clientHeaders: [],
      onAbandon: () => undefined,
      translates: () => false,
      isStrict: true,
    };
    await hooks.attempt?.(Object.assign(context, { attempt, dialect: undefined as never }));
    sent.push(urlsOf(JSON.parse(body.outgoing.toString())));
  }
  return { sent, fetched, changed: context.body.changed };
}

test('inline-image: a later attempt fetches nothing again, and changes only its own body', async () => {
  const urls = ['https://images.example.com/a'];
  const options = { providers: ['second', 'third'] };
  const made = await attempts(options, { bytes: png, urls, providers: ['first', 'second', 'third'] });
  const inline = [dataUrl(png, 'image/png')];
  assert.deepEqual(made, { sent: [urls, inline, inline], fetched: urls, changed: false });
});

describe('inline-image: all images together have 64 MiB', () => {
  const bytes = Buffer.concat([png, Buffer.alloc(20_000_000)]);
  const cases: readonly [string, (index: number) => string, number, InlineImageOptions, boolean[]][] = [
    [
      'one named several times counts as often',
      () => 'https://a.example.com/',
      1,
      {},
      [true, true, true, false],
    ],
    ['as different ones do', (i) => `https://a.example.com/${i}`, 4, {}, [true, true, true, false]],
    [
      'or as much as a single one may have',
      () => 'https://a.example.com/',
      1,
      { maxSizeBytes: 90_000_000 },
      Array(4).fill(true),
    ],
  ];
  for (const [name, urlOf, fetches, options, inlined] of cases) {
    test(name, async () => {
      const urls = Array.from({ length: 4 }, (_, index) => urlOf(index));
      const { sent, fetched } = await attempts(options, { bytes, urls, providers: ['up'] });
      assert.deepEqual(
        sent[0]?.map((url) => url.startsWith('data:')),
        inlined,
      );
      assert.equal(fetched.length, fetches);
    });
  }
});

describe('default.inlineImage, the same as a check of guardrails', () => {
  /** Two attempts at most, with guardrails of the config. */
  const guarded = async (
    t: NodeTestContext,
    parameters: object,
    actions: object = {},
    servers: Pick<Options, 'images' | 'answers'> = {},
  ) => {
    const inlined = await inlining(t, {
      ...servers,
      gateway: { plugins: [guardrails, providerPlugin({ default: 'up' })] },
    });
    const target = { provider: '@up', request_timeout: 5_000 };
    const config = {
      strategy: { mode: 'fallback', on_status_codes: [500, 446] },
      targets: [{ ...target, retry: { attempts: 1, on_status_codes: [500] } }, target],
      input_guardrails: [{ id: 'images', 'default.inlineImage': parameters, ...actions }],
    };
    const ask = (...urls: string[]) =>
      send(inlined.weir.url, {
        ...chat(...urls),
        headers: { 'x-service-config': JSON.stringify(config) },
      });
    const records = async () =>
      (await inlined.weir.untilSettled(1)).facts.verdicts.map(({ verdict }) => verdict);
    return { ...inlined, ask, records };
  };

  test('sends the images, tells how many, and says that it changed something', async (t) => {
    const { server, ask, received, records } = await guarded(t, {});
    const answer = await ask(`${server.url}/a`, `${server.url}/b`);
    assert.equal(answer.status, 200);
    assert.deepEqual(urlsOf(received()), Array(2).fill(dataUrl(png, 'image/png')));
    const [hook] = answer.json().hook_results.before_request_hooks;
    assert.deepEqual(
      [hook.verdict, hook.transformed, hook.checks[0].data],
      [true, true, { inlined: 2, left: [] }],
    );
    assert.deepEqual(await records(), ['changed']);
  });

  test('has nothing to judge without images, and at other providers', async (t) => {
    for (const [parameters, urls] of [
      [{}, []],
      [{ providers: ['anthropic'] }, ['https://images.example.com/a']],
    ] as const) {
      const { ask, received, records } = await guarded(t, parameters);
      assert.equal((await ask(...urls)).status, 200);
      assert.deepEqual(urlsOf(received()), [...urls]);
      assert.deepEqual(await records(), ['skipped']);
    }
  });

  test('fetches nothing again at a later attempt', async (t) => {
    let asked = 0;
    const answers: Answering = (_request, response) => {
      asked += 1;
      response.writeHead(asked < 3 ? 500 : 200, { 'content-type': 'application/json' }).end('{}');
    };
    const inlined = await guarded(t, {}, {}, { answers });
    assert.equal((await inlined.ask(`${inlined.server.url}/a`)).status, 200);
    assert.deepEqual([asked, inlined.server.requests.length], [3, 1]);
    for (const { body } of inlined.provider.requests)
      assert.deepEqual(urlsOf(JSON.parse(String(body))), [dataUrl(png, 'image/png')]);
  });

  const broken = serve('<svg/>', 'image/png');
  for (const [name, parameters, actions, status] of [
    ['its URL stays, and it is no check that passed', {}, { deny: true }, 200],
    ['refused where the guardrail denies', { failOnError: true }, { deny: true }, 446],
    ['marked where it does not', { failOnError: true }, {}, 246],
  ] as const)
    test(`an image that cannot be fetched: ${name}`, async (t) => {
      const { server, ask, provider, records } = await guarded(t, parameters, actions, { images: broken });
      const answer = await ask(`${server.url}/a?secret`);
      assert.equal(answer.status, status, answer.text);
      const [check] = answer.json().hook_results.before_request_hooks[0].checks;
      const said = status === 200 ? check.data.left[0] : check.error.message;
      assert.match(said, /messages\[0\]\.content\[1\]\.image_url\.url.*no PNG/);
      assert.doesNotMatch(answer.text, /secret/);
      assert.equal(provider.requests.length, status === 446 ? 0 : 1);
      assert.equal((await records())[0], status === 200 ? 'skipped' : 'failed');
    });

  test('a client that leaves ends the fetches', async (t) => {
    const { weir, server, provider } = await guarded(t, {}, {}, { images: () => undefined });
    const body = JSON.stringify(chat(`${server.url}/a`).body);
    const config = JSON.stringify({ provider: '@up', input_guardrails: [{ 'default.inlineImage': {} }] });
    const client = await connect(t, weir.port);
    client.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-service-config: ${config}\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    await until(() => server.requests.length === 1, 'the fetch');
    client.socket.destroy();
    await until(() => server.requests[0]?.cut === true, 'the fetch has ended');
    assert.equal((await weir.untilSettled()).outcome.kind, 'cancelled');
    assert.equal(provider.requests.length, 0);
  });
});

test('inline-image: options', () => {
  const full = { providers: ['anthropic'], maxSizeBytes: 1, timeoutMs: 1, failOnError: true };
  assert.equal(optionErrors(inlineImage, full), '');
  assert.equal(optionErrors(inlineImage, {}), '');
  assert.match(optionErrors(inlineImage, { providers: [] }), /fewer than 1/);
  assert.match(optionErrors(inlineImage, { maxSizeBytes: 0 }), />= 1/);
  assert.match(optionErrors(inlineImage, { timeoutMs: '1s' }), /integer/);
  assert.match(optionErrors(inlineImage, { max_size: 1 }), /additional/);
});
