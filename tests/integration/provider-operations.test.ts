// Every operation that the gateway passes on: what the client sends arrives, and what the provider answers comes back.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { operationsOf, ofProviders, wantedOperations } from '../../scripts/wanted-operations.ts';
import { providerPlugin, startTestGateway } from '../kit/gateway-kit.ts';
import { send, startUpstream } from '../kit/http-kit.ts';

const operations = Object.entries(wantedOperations)
  .filter(([resource]) => ofProviders.has(resource) && resource !== 'Realtime')
  .flatMap(([, texts]) => texts.flatMap((text) => operationsOf(text)))
  // It is translated for a provider that is not known to speak the Responses API: tests/golden.
  .filter(({ method, path }) => `${method} ${path}` !== 'POST /responses');
/** Enough for each endpoint that is modelled to be let through. */
const body = {
  model: 'text-moderation-latest',
  messages: [{ role: 'user', content: 'Hi' }],
  input: 'Hi',
  query: 'Hi',
  documents: ['a'],
  voice: 'alloy',
  prompt: 'Hi',
};

test('operations of providers', async (t) => {
  const provider = await startUpstream(t, ({ method, url }, response) => {
    const answered = { object: 'list', data: [], answers: `${method} ${url}` };
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answered));
  });
  const gateway = await startTestGateway(t, {
    plugins: [providerPlugin({ default: 'up' })],
    providers: { up: { base_url: provider.url, credentials: 'none' } },
  });
  for (const { method, path } of operations) {
    await t.test(`${method} ${path}`, async () => {
      const named = path.replaceAll(/\{([^}]+)\}/g, '$1-1');
      const answer = await send(gateway.url, {
        method,
        path: `/v1${named}?after=x`,
        ...(method === 'POST' && { body }),
      });
      const [request] = provider.requests.splice(0);
      assert.equal(answer.status, 200, answer.text);
      assert.equal(`${request?.method} ${request?.url}`, `${method} ${named}?after=x`);
      assert.equal(answer.json().answers, `${method} ${named}?after=x`);
      if (method === 'POST') assert.deepEqual(JSON.parse(String(request?.body)), body);
    });
  }
});
