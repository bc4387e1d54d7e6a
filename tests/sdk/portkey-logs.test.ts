// Reporting requests as users of the `portkey-ai` client do it: with only the base URL changed.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Portkey } from 'portkey-ai';
import { startAdministration } from '../kit/administration-kit.ts';
import { testKey } from '../kit/plugin-kit.ts';
import { failureOf } from './sdk-setting.ts';

/** A client with the key of a workspace. */
async function clientOf(t: TestContext, scopes = ['logs.write', 'logs.view']) {
  const { gateway, call } = await startAdministration(t);
  const key = testKey({ kind: 'workspace-service', scopes });
  // The key is known to the gateway from its first call on.
  await call(key, { path: '/logs' });
  return new Portkey({ apiKey: `wk_${key.id}`, baseURL: `${gateway.url}/v1` });
}

const log = {
  request: {
    url: 'https://api.openai.com/v1/chat/completions',
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: { model: 'gpt-5', messages: [{ role: 'user', content: 'Hello' }] },
  },
  response: { status: 200, headers: {}, body: { choices: [] }, response_time: 12 },
  metadata: { trace_id: 'trace', span_id: 'span', span_name: 'hello', _user: 'ann' },
};

test('one request', async (t) => {
  const portkey = await clientOf(t);
  const answer = (await portkey.logs.create(log)) as { status: string; ids: string[] };
  assert.equal(answer.status, 'success');
  assert.equal(answer.ids.length, 1);
});

test('a refusal says what is wrong', async (t) => {
  const portkey = await clientOf(t);
  assert.match(String(await failureOf(portkey.logs.create({ ...log, request: {} }))), /missing key \\?"url/);
  const other = await clientOf(t, ['logs.view']);
  assert.match(String(await failureOf(other.logs.create(log))), /lacks the scope/);
});
