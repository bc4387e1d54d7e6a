import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { providerPlugin, startTestGateway } from '../../tests/kit/gateway-kit.ts';
import { send, startUpstream } from '../../tests/kit/http-kit.ts';
import { GatewayError } from './gateway-error.ts';

const sought = 'Q'.repeat(201);

describe('a refusal repeats at most 200 characters of what it refuses', () => {
  const huge = 'Q'.repeat(5000);
  const chat = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] };
  const asked: readonly [string, { headers?: Record<string, string>; path?: string; body?: unknown }][] = [
    ['a provider', { headers: { 'x-service-provider': huge } }],
    ['a slug', { headers: { 'x-service-provider': `@${huge}` } }],
    ['a virtual key', { headers: { 'x-service-virtual-key': huge } }],
    ['a config', { headers: { 'x-service-config': huge } }],
    ['an inline config', { headers: { 'x-service-config': JSON.stringify({ [huge]: 1 }) } }],
    ['a strategy', { headers: { 'x-service-config': JSON.stringify({ strategy: { mode: huge } }) } }],
    ['a host', { headers: { 'x-service-custom-host': `ftp://${huge}`, 'x-service-provider': 'openai' } }],
    ['metadata', { headers: { 'x-service-metadata': JSON.stringify({ [huge]: [] }) } }],
    ['a timeout', { headers: { 'x-service-request-timeout': huge } }],
    ['a content-encoding', { headers: { 'content-encoding': huge } }],
    ['a path', { path: `/v1/prompts/${huge}` }],
    ['a name in the model', { body: { ...chat, model: `@${huge}/x` } }],
    ['a member twice', { body: `{"${huge}":1,"${huge}":2}` }],
  ];
  for (const [what, { headers = {}, path = '/v1/chat/completions', body = chat }] of asked) {
    test(what, async (t) => {
      const upstream = await startUpstream(t, (_request, response) => void response.end('{}'));
      const { url } = await startTestGateway(t, {
        plugins: [providerPlugin()],
        providers: { up: { base_url: upstream.url } },
      });
      const text = typeof body === 'string' ? body : JSON.stringify(body);
      const answer = await send(url, { path, headers, body: text });
      assert.ok(answer.status >= 400, String(answer.status));
      assert.ok(!answer.text.includes(sought), answer.text.slice(0, 400));
      assert.ok(answer.text.length < 3000, String(answer.text.length));
    });
  }

  test('in quotes with spaces and quotes of its own, and as a name', () => {
    const value = `${'Q '.repeat(150)}"${'Q '.repeat(150)}`;
    const error = new GatewayError('invalid_request', `The model ${JSON.stringify(value)} is not known.`, {
      param: value,
    });
    assert.equal(error.message, `The model "${'Q '.repeat(100).slice(0, 199)}…" is not known.`);
    assert.equal(error.param?.length, 200);
  });

  test('and no message is longer than any reader reads; what a provider says is passed on', () => {
    const said = 'a word '.repeat(2000);
    assert.equal(new GatewayError('invalid_request', said).message.length, 4001);
    assert.equal(new GatewayError('upstream_invalid', said, { source: 'provider' }).message, said);
    assert.equal(new GatewayError('upstream_invalid', said, { reported: { status: 400 } }).message, said);
  });
});
