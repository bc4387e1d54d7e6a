import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import type { GuardedRequest } from '../../../core/ports/transport.ts';
import { testScope, testStart } from '../../../tests/kit/plugin-kit.ts';
import { builtIn, faults, judge, subject, verdict } from './subject.test-support.ts';

const jwt = builtIn('default.jwt');
const log = builtIn('default.log');
const validUrls = builtIn('default.validUrls');
const webhook = builtIn('default.webhook');

/** A network on which every address answers alike, or as it is told. */
function network(answer: (request: GuardedRequest) => { status?: number; body?: unknown } | Error) {
  const requests: GuardedRequest[] = [];
  const { scope } = testScope({
    guardedFetch: {
      fetch(request) {
        requests.push(request);
        const run = async () => {
          const said = answer(request);
          if (said instanceof Error) throw said;
          const { status = 200, body = '' } = said;
          request.accept?.(status, []);
          return {
            status,
            headers: [],
            body: Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)),
          };
        };
        return { answer: run(), abort: () => undefined };
      },
    },
  });
  const sent = () => JSON.parse(Buffer.from(requests.at(-1)?.body ?? []).toString());
  return { scope, requests, sent };
}

const unreachable = new GatewayError('fetch_failed', 'It did not answer.');
const webhookURL = 'https://hook.example.com/x';

describe('webhook', () => {
  test('sends what existing webhooks expect, and passes as it says', async () => {
    const { scope, requests, sent } = network(() => ({ body: { verdict: true, data: { score: 1 } } }));
    const judged = subject({
      text: 'hi',
      json: { model: 'm', messages: [] },
      metadata: { user: 'ann' },
      provider: '@openai',
      headers: { authorization: 'secret' },
    });
    const result = await judge(
      webhook,
      { webhookURL, headers: '{"x-a":"1","Host":"evil"}', timeout: 7 },
      judged,
      scope,
    );
    assert.deepEqual(result, {
      verdict: 'passed',
      data: { explanation: 'The webhook says yes.', webhook: { score: 1 } },
    });
    assert.deepEqual(sent(), {
      eventType: 'beforeRequestHook',
      request: { json: { model: 'm', messages: [] }, text: 'hi' },
      response: { json: null, text: '', statusCode: null },
      provider: 'openai',
      requestType: 'chatComplete',
      metadata: { user: 'ann' },
    });
    const [{ method, headers = [], timeoutMs } = { timeoutMs: 0 }] = requests as Partial<GuardedRequest>[];
    assert.deepEqual([method, timeoutMs], ['POST', 7]);
    assert.deepEqual(headers.slice(4), ['x-a', '1']);
  });

  test('of an answer', async () => {
    const { scope, sent } = network(() => ({ body: { verdict: false } }));
    const answer = subject({ phase: 'output', text: 'ok', json: { id: 'a' } });
    assert.equal(await verdict(webhook, { webhookURL }, answer, scope), 'failed');
    assert.equal(sent().eventType, 'afterRequestHook');
    assert.deepEqual(sent().response, { json: { id: 'a' }, text: 'ok', statusCode: 200 });
  });

  test('puts what it has changed in place, and nothing else', async () => {
    const json = { model: 'm', messages: [{ content: 'new' }], user: 'x' };
    const { scope } = network(() => ({
      body: { verdict: true, transformedData: { request: { json }, response: { json: { model: 'other' } } } },
    }));
    const judged = subject({ text: 'hi', json: { model: 'm', messages: [{ content: 'old' }] } });
    assert.equal(await verdict(webhook, { webhookURL }, judged, scope), 'passed');
    assert.deepEqual(judged.values, [
      [['messages'], [{ content: 'new' }]],
      [['user'], 'x'],
    ]);
  });

  for (const [name, answer] of [
    ['no answer', unreachable],
    ['another status', { status: 500, body: { verdict: true } }],
    ['no JSON', { body: '<html>' }],
    ['no verdict', { body: { verdict: 'true' } }],
  ] as const)
    test(`${name}: no verdict, or a failed one when it is told so`, async () => {
      const { scope } = network(() => answer);
      await assert.rejects(judge(webhook, { webhookURL }, 'hi', scope));
      assert.equal(await verdict(webhook, { webhookURL, failOnError: true }, 'hi', scope), 'failed');
    });

  test('gives up with the check', async () => {
    const { scope, requests } = network(() => ({}));
    const judged = subject({ text: 'hi', signal: AbortSignal.abort() });
    await assert.rejects(judge(webhook, { webhookURL }, judged, scope));
    assert.equal(requests.length, 0);
  });

  test('parameters that cannot be kept are refused', () => {
    assert.match(faults(webhook, { webhookURL: 'ftp://x' }), /webhookURL/);
    assert.match(faults(webhook, { webhookURL, headers: 'x' }), /\/headers is no JSON object/);
    assert.match(faults(webhook, { webhookURL, headers: { 'a b': '1' } }), /\/headers has "a b"/);
    assert.match(
      faults(webhook, { webhookURL, headers: { a: '1\r\nb: 2' } }),
      /\/headers has a value for "a"/,
    );
    assert.match(faults(webhook, { webhookURL, timeout: 0 }), /timeout/);
    assert.match(faults(webhook, { webhookURL, retries: 1 }), /retries/);
  });
});

test('log passes whatever comes of it', async () => {
  const parameters = { logURL: 'https://log.example.com' };
  const fine = network(() => ({ status: 204 }));
  assert.equal(await verdict(log, parameters, 'hi', fine.scope), 'passed');
  assert.equal(fine.sent().request.text, 'hi');
  assert.equal(await verdict(log, parameters, 'hi', network(() => unreachable).scope), 'passed');
  assert.match(faults(log, {}), /logURL/);
});

test('jwt', async () => {
  const { publicKey, privateKey } = await generateKeyPair('RS256');
  const jwk = { ...(await exportJWK(publicKey)), kid: '1', alg: 'RS256' };
  const { scope, requests } = network(() => ({ body: { keys: [jwk] } }));
  const now = testStart / 1000;
  const token = (iat: number | undefined, exp: number) =>
    new SignJWT(iat === undefined ? { exp } : { iat, exp })
      .setProtectedHeader({ alg: 'RS256', kid: '1' })
      .sign(privateKey);
  const parameters = { jwksUri: 'https://keys.example.com', headerKey: 'X-Token', maxTokenAge: '2 hours' };
  const judgeToken = jwt.create(parameters, scope);
  const said = async (value?: string) =>
    (await judgeToken(subject({ text: 'hi', headers: value === undefined ? {} : { 'x-token': value } })))
      .verdict;
  assert.equal(await said(`Bearer ${await token(now - 60, now + 60)}`), 'passed');
  assert.equal(await said(await token(now - 60, now + 60)), 'passed');
  assert.equal(requests.length, 1);
  assert.equal(await said(await token(now - 7300, now + 60)), 'failed');
  assert.equal(await said(await token(now - 60, now - 10)), 'failed');
  assert.equal(await said(await token(undefined, now + 60)), 'failed');
  assert.equal(await said('nonsense'), 'failed');
  assert.equal(await said(), 'failed');
  const dead = network(() => unreachable).scope;
  const headers = { 'x-token': await token(now, now + 60) };
  await assert.rejects(judge(jwt, parameters, subject({ text: 'hi', headers }), dead));
  assert.match(faults(jwt, { ...parameters, maxTokenAge: 'soon' }), /maxTokenAge/);
  assert.match(faults(jwt, { ...parameters, algorithms: ['none'] }), /algorithms/);
  assert.match(faults(jwt, { ...parameters, headerKey: 'a b' }), /headerKey/);
});

describe('validUrls', () => {
  const { scope, requests } = network(({ url }) =>
    url.includes('down') ? unreachable : { status: url.includes('missing') ? 404 : 200 },
  );
  const cases: [object, string, string][] = [
    [{}, 'See https://a.example.com/x, and (http://b.example.com).', 'passed'],
    [{}, 'See https://a.example.com/missing', 'failed'],
    [{}, 'See https://down.example.com/', 'failed'],
    [{ not: true }, 'See https://down.example.com/', 'passed'],
    [{}, 'See https://ann:pw@a.example.com/', 'failed'],
    [{}, 'See http://[', 'skipped'],
    [{}, 'no address', 'skipped'],
    [{}, Array.from({ length: 21 }, (_, index) => `https://a.example.com/${index}`).join(' '), 'failed'],
    [{ onlyDNS: true }, 'http://127.0.0.1/', 'failed'],
    [{ onlyDNS: true }, 'http://8.8.8.8/', 'passed'],
  ];
  for (const [parameters, text, expected] of cases)
    test(`${JSON.stringify(parameters)} of ${text.slice(0, 50)}: ${expected}`, async () =>
      assert.equal(await verdict(validUrls, parameters, text, scope), expected));

  test('asks for each address once, without what ends a sentence', async () => {
    requests.length = 0;
    await verdict(
      validUrls,
      {},
      subject({ texts: ['https://a.example.com/1.', 'https://a.example.com/1'] }),
      scope,
    );
    assert.deepEqual(
      requests.map(({ url }) => url),
      ['https://a.example.com/1'],
    );
    assert.match(faults(validUrls, { onlyDns: true }), /onlyDns/);
  });
});
