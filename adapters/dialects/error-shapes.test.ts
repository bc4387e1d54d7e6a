import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readSseFrame } from '../../core/base/sse.ts';
import type { ErrorCode } from '../../core/errors/codes.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { dialects } from './index.ts';
import type { DialectName } from '../../core/dialects/endpoint.ts';

function dialect(name: DialectName): NonNullable<ReturnType<typeof dialects.get>> {
  const found = dialects.get(name);
  assert.ok(found !== undefined);
  return found;
}

const body = (name: DialectName, error: GatewayError): unknown =>
  JSON.parse(Buffer.from(dialect(name).encodeError(error, 'request-1')).toString());

const invalid = new GatewayError('invalid_request', 'n must be smaller.', { param: 'n' });

test('every dialect is registered under its own name', () => {
  for (const [name, { name: own }] of dialects) assert.equal(own, name);
  assert.equal(dialects.size, 5);
});

test('the OpenAI shape has exactly its four members', () => {
  const expected = {
    error: {
      message: 'n must be smaller.',
      type: 'invalid_request_error',
      param: 'n',
      code: 'invalid_request',
    },
  };
  assert.deepEqual(body('openai-chat', invalid), expected);
  assert.deepEqual(body('openai-responses', invalid), expected);
});

test('the refusal of a guard carries its results and no code', () => {
  const refusal = new GatewayError('hooks_failed', 'Denied.', {
    extra: { hook_results: { before_request_hooks: [] } },
  });
  assert.deepEqual(body('openai-chat', refusal), {
    error: { message: 'Denied.', type: 'hooks_failed', param: null, code: null },
    hook_results: { before_request_hooks: [] },
  });
});

test('the Anthropic shape names the type that its clients know, and the request', () => {
  assert.deepEqual(body('anthropic-messages', invalid), {
    type: 'error',
    error: { type: 'invalid_request_error', message: 'n must be smaller.' },
    request_id: 'request-1',
  });
  const types: readonly (readonly [ErrorCode, string])[] = [
    ['key_invalid', 'authentication_error'],
    ['scope_missing', 'permission_error'],
    ['route_not_found', 'not_found_error'],
    ['body_too_large', 'request_too_large'],
    ['rate_limited', 'rate_limit_error'],
    ['hooks_failed', 'invalid_request_error'],
    ['internal', 'api_error'],
    ['upstream_reset', 'api_error'],
    ['overloaded', 'overloaded_error'],
    ['upstream_timeout', 'timeout_error'],
  ];
  for (const [code, type] of types) {
    assert.equal(
      (body('anthropic-messages', new GatewayError(code, 'x')) as { error: { type: string } }).error.type,
      type,
    );
  }
});

test('the events of a failed stream', () => {
  const error = new GatewayError('upstream_reset', 'Gone.');
  const event = (name: DialectName): { event: string; data: unknown } => {
    const frame = readSseFrame(Buffer.from(dialect(name).encodeStreamError(error, 'request-1')));
    return { event: frame.event, data: JSON.parse(frame.data ?? '') };
  };
  const members = { message: 'Gone.', type: 'upstream_error', param: null, code: 'upstream_reset' };
  assert.deepEqual(event('openai-chat'), { event: '', data: { error: members } });
  assert.deepEqual(event('openai-responses'), {
    event: 'error',
    data: { type: 'error', code: 'upstream_reset', message: 'Gone.', param: null, error: members },
  });
  assert.deepEqual(event('anthropic-messages'), {
    event: 'error',
    data: { type: 'error', error: { type: 'api_error', message: 'Gone.' }, request_id: 'request-1' },
  });
});
