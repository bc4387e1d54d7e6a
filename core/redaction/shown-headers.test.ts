import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { credentialHeaders } from '../base/header-names.ts';
import { ShownHeaders, type ShownHeadersOptions } from './provider-call.ts';

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
      const told = JSON.stringify(shownHeaders(pairs.flat(), options));
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
