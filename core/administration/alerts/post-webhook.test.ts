import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { describe, test, type TestContext } from 'node:test';
import { testFetch } from '../../../adapters/guarded-fetch/guarded-fetch.test-support.ts';
import { type Answering, startUpstream } from '../../../tests/kit/http-kit.ts';
import { postWebhook } from './usage-alerts.ts';

const key = Buffer.from('0123456789abcdef0123456789abcdef');
const post = { secret: `whsec_${key.toString('base64')}`, id: 'msg_1', body: '{"type":"x"}' };
const now = 1_700_000_000_999;

async function place(t: TestContext, answer: Answering) {
  const { url, host, requests } = await startUpstream(t, answer);
  const to = (path: string, trustedHosts = [host], signal = new AbortController().signal) =>
    postWebhook({ ...post, url: url + path }, { fetch: testFetch({ trustedHosts }), now, signal });
  return { host, requests, to };
}

describe('a webhook', () => {
  test('is posted with a signature over its id, time and body', async (t) => {
    const { requests, to } = await place(t, (_, response) => void response.writeHead(204).end());
    assert.deepEqual(await to('/hooks?a=b'), { outcome: 'taken' });
    const [request] = requests;
    assert.ok(request);
    const { method, url, headers, body } = request;
    assert.deepEqual([method, url, body.toString()], ['POST', '/hooks?a=b', post.body]);
    assert.deepEqual(
      [headers['content-type'], headers['webhook-id'], headers['webhook-timestamp']],
      ['application/json', 'msg_1', '1700000000'],
    );
    const signed = `msg_1.1700000000.${post.body}`;
    const signature = createHmac('sha256', key).update(signed).digest('base64');
    assert.equal(headers['webhook-signature'], `v1,${signature}`);
  });

  for (const status of [400, 410, 413, 422])
    test(`that is answered with ${status} is refused for ever`, async (t) => {
      const { host, to } = await place(
        t,
        (_, response) => void response.writeHead(status).end('No, s3cret.'),
      );
      assert.deepEqual(await to('/'), { outcome: 'refused', reason: `"${host}" answered ${status}` });
    });

  for (const status of [401, 404, 408, 425, 429, 500, 503])
    test(`that is answered with ${status} may be posted again`, async (t) => {
      const { host, to } = await place(t, (_, response) => void response.writeHead(status).end());
      assert.deepEqual(await to('/'), { outcome: 'failed', reason: `"${host}" answered ${status}` });
    });

  test('may ask to be left alone for a while', async (t) => {
    const { host, to } = await place(t, (_, response) => {
      response.writeHead(503, { 'retry-after': '90' }).end();
    });
    const reason = `"${host}" answered 503`;
    assert.deepEqual(await to('/'), { outcome: 'failed', reason, retryAfterMs: 90_000 });
  });

  test('follows no redirect', async (t) => {
    const { requests, to } = await place(t, (_, response) => {
      response.writeHead(307, { location: '/other' }).end();
    });
    assert.equal((await to('/')).outcome, 'failed');
    assert.equal(requests.length, 1);
  });

  test('is taken when the head of the answer says so, however long the answer is', async (t) => {
    const { to } = await place(t, (_, response) => {
      response.writeHead(200);
      response.end(Buffer.alloc(2_000_000));
    });
    assert.deepEqual(await to('/'), { outcome: 'taken' });
  });

  test('goes to no private address that is not trusted, and a reason tells no path', async (t) => {
    const { requests, to } = await place(t, (_, response) => void response.end());
    const refused = await to('/s3cret', []);
    assert.ok(refused.outcome === 'failed');
    assert.doesNotMatch(refused.reason, /s3cret/);
    assert.match(refused.reason, /127\.0\.0\.1/);
    assert.equal(requests.length, 0);
  });

  test('is given up when it is told to stop', async (t) => {
    const stop = new AbortController();
    const { host, to } = await place(t, () => stop.abort());
    assert.equal((await to('/', [host], stop.signal)).outcome, 'failed');
  });
});
