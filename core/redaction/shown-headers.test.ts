import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { credentialHeaders } from '../base/header-names.ts';
import { ShownHeaders } from './provider-call.ts';

type ShownHeadersOptions = Parameters<ShownHeaders['within']>[1];

const options = { serviceNames: ['api-key', 'trace-id'], sensitive: undefined };
const shown = new ShownHeaders('wk_');

function shownHeaders(
  headers: string[],
  { redact, ...given }: ShownHeadersOptions & { redact?: (value: string) => string },
): Record<string, string> {
  const teller = redact === undefined ? shown : new ShownHeaders('wk_', redact);
  const told = teller.within(headers, given);
  assert.equal(teller.within(headers, given), told, 'what is remembered is told in the same way');
  return JSON.parse(JSON.parse(`"${told}"`) as string) as Record<string, string>;
}

test('harmless headers are shown, and the others are named', () => {
  const headers = [
    'Content-Type',
    'application/json',
    'X-Service-Trace-Id',
    't1',
    'X-Service-Api-Key',
    'wk_abc',
  ];
  assert.deepEqual(shownHeaders([...headers, 'X-Mine', 'hunter2', 'Accept', 'a', 'accept', 'b'], options), {
    'content-type': 'application/json',
    'x-service-trace-id': 't1',
    'x-service-api-key': '***',
    'x-mine': '***',
    accept: 'a, b',
  });
});

test('a header that the request calls sensitive is masked, and rules of redaction hold', () => {
  const redact = (value: string): string => value.replaceAll('ann', '<name>');
  const given = { ...options, sensitive: 'User-Agent', redact };
  assert.deepEqual(shownHeaders(['user-agent', 'curl', 'accept', 'for ann'], given), {
    'user-agent': '***',
    accept: 'for <name>',
  });
});

test('a config that came with the request is shown, without what may be a secret', () => {
  const of = (value: object, more: Partial<ShownHeadersOptions> = {}): unknown => {
    const config = JSON.stringify(value);
    const told = shownHeaders(['X-Service-Config', config, 'X-Mine-Config', '{"a":1}'], {
      ...options,
      config,
      ...more,
    });
    assert.equal(told['x-mine-config'], '***');
    const { 'x-service-config': shownConfig = '' } = told;
    return shownConfig.startsWith('{') ? JSON.parse(shownConfig) : shownConfig;
  };
  const plainConfig = {
    retry: { attempts: 2, on_status_codes: [429] },
    targets: [
      { provider: '@a', forward_headers: ['x-a'], override_params: { max_tokens: 9, temperature: 0 } },
    ],
  };
  assert.deepEqual(of(plainConfig), plainConfig);
  const url = 'https://host.example';
  const secrets = {
    api_key: 'hunter2',
    awsSecretAccessKey: 'hunter2',
    custom_host: url.replace('//', '//me:hunter2@'),
    vertex_service_account_json: { private_key: 'hunter2', id: 7 },
    input_guardrails: [{ 'default.webhook': { url: `${url}?a=hunter2`, headers: { 'x-any': 'hunter2' } } }],
    override_params: { user: 'sk-0123456789abcdef' },
  };
  const masked = of(secrets);
  assert.doesNotMatch(JSON.stringify(masked), /hunter2|sk-|7/);
  assert.deepEqual(masked, {
    ...{ api_key: '***', awsSecretAccessKey: '***', custom_host: '***' },
    vertex_service_account_json: { private_key: '***', id: '***' },
    input_guardrails: [{ 'default.webhook': { url: '***', headers: { 'x-any': '***' } } }],
    override_params: { user: '***' },
  });
  assert.equal(of({ a: 'x '.repeat(3000) }), '***', 'a long one is not kept');
  assert.equal(of(plainConfig, { sensitive: 'x-service-config' }), '***');
});

test('property: no secret is told, whatever header holds it', () => {
  const secret = fc
    .tuple(
      fc.constantFrom('wk_', 'sk-', 'sk-proj-', 'ghp_', 'AKIA', 'AIza', 'eyJ', 'Bearer ', 'Basic '),
      fc.stringMatching(/^[A-Za-z0-9]{20,60}$/),
    )
    .map(([start, rest]) => start + rest);
  const name = fc.oneof(
    fc.constantFrom(
      ...credentialHeaders,
      'cookie',
      'proxy-authorization',
      'user-agent',
      'accept',
      'content-type',
    ),
    fc.constantFrom(
      'x-service-api-key',
      'x-service-config',
      'x-service-trace-id',
      'x-service-aws-secret-access-key',
    ),
    fc.stringMatching(/^[A-Za-z][A-Za-z-]{0,30}$/),
  );
  fc.assert(
    fc.property(fc.array(fc.tuple(name, secret), { maxLength: 80 }), (pairs) => {
      const config = JSON.stringify({ targets: [Object.fromEntries(pairs)], list: pairs });
      const told = JSON.stringify(
        shownHeaders(['x-service-config', config, ...pairs.flat()], { ...options, config }),
      );
      for (const [, value] of pairs) assert.ok(!told.includes(value), value);
      assert.ok(told.length < 12_000);
    }),
  );
});

test('property: a value is shown only under a known name', () => {
  const name = fc.stringMatching(/^x-mine-[a-z]{1,20}$/);
  fc.assert(
    fc.property(name, fc.string({ minLength: 4 }), (header, value) => {
      assert.deepEqual(shownHeaders([header, value], options), { [header]: '***' });
    }),
  );
});
