import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ProviderError } from '../../core/dialects/canonical/chat-answer.ts';
import { openAiErrors } from './openai-shapes.ts';

test('errors are read from whatever shape a host of the family gives them', () => {
  const cases: readonly (readonly [string, Partial<ProviderError>])[] = [
    [
      '{"error":{"message":"Bad.","type":"invalid_request_error","param":"n","code":"x"}}',
      { message: 'Bad.', type: 'invalid_request_error', param: 'n', code: 'x' },
    ],
    ['{"error":"Bad."}', { message: 'Bad.' }],
    ['{"code":"invalid-argument","error":"Bad."}', { message: 'Bad.', code: 'invalid-argument' }],
    [
      '[{"error":{"code":400,"message":"Bad.","status":"INVALID_ARGUMENT"}}]',
      { message: 'Bad.', type: 'INVALID_ARGUMENT', code: '400' },
    ],
    ['{"detail":"Bad."}', { message: 'Bad.' }],
    [
      '{"detail":[{"loc":["body","n"],"msg":"too small","type":"value_error"},{"msg":"worse"}]}',
      { message: 'body.n: too small; worse' },
    ],
    [
      '{"object":"error","message":"Bad.","type":"BadRequestError","param":null,"code":400}',
      { message: 'Bad.', type: 'BadRequestError', code: '400' },
    ],
    ['{"message":"Bad."}', { message: 'Bad.' }],
    ['{"object":"error","message":{"detail":[{"msg":"odd"}]},"type":"x"}', { message: 'odd', type: 'x' }],
    [
      '{"success":false,"errors":[{"code":5007,"message":"No such model"}]}',
      { message: 'No such model', code: '5007' },
    ],
    ['"Bad."', { message: 'Bad.' }],
    ['{"error":{"code":"oops"}}', { message: 'oops', code: 'oops' }],
    ['', { message: 'The provider answered 418 without a body.' }],
    ['<html><title>Bad gateway</title></html>', { message: 'The provider answered 418: Bad gateway' }],
    ['{"error":{"mess', { message: 'The provider answered 418: {"error":{"mess' }],
    ['{}', { message: 'The provider answered 418: {}' }],
  ];
  for (const [body, expected] of cases) {
    assert.deepEqual(openAiErrors.decode(418, Buffer.from(body)), { status: 418, ...expected }, body);
  }
});

test('an error without a type gets the word that its status has', () => {
  const cases: readonly (readonly [number, string])[] = [
    [400, 'invalid_request_error'],
    [401, 'authentication_error'],
    [403, 'permission_error'],
    [404, 'not_found_error'],
    [429, 'rate_limit_error'],
    [502, 'api_error'],
  ];
  for (const [status, type] of cases) {
    assert.deepEqual(
      JSON.parse(openAiErrors.encodeProvider({ status, message: 'Bad.', code: 'c', param: 'p' }, 'example')),
      {
        error: { message: 'Bad.', type, param: 'p', code: 'c' },
        provider: 'example',
      },
    );
  }
});
