import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import type { ProviderError } from '../../../core/dialects/canonical/chat-answer.ts';
import { readSseFrame } from '../../../core/base/sse.ts';
import { geminiErrors } from './errors.ts';
import { answerContext } from './gemini-wire.test-support.ts';
import { geminiClient } from './index.ts';

const shapes: readonly (readonly [string, string, Partial<ProviderError>])[] = [
  [
    'an object with details',
    JSON.stringify({
      error: {
        code: 400,
        message: 'Bad field.',
        status: 'INVALID_ARGUMENT',
        details: [
          { '@type': 'x', fieldViolations: [{ field: 'contents[0]' }] },
          { '@type': 'y', reason: 'API_KEY_INVALID' },
        ],
      },
    }),
    { message: 'Bad field.', type: 'INVALID_ARGUMENT', code: 'API_KEY_INVALID', param: 'contents[0]' },
  ],
  ['an array', '[{"error":{"code":400,"message":"In an array."}}]', { message: 'In an array.' }],
  ['a text', '{"error":"plain"}', { message: 'plain' }],
  [
    'a text with its description',
    '{"error":"invalid_grant","error_description":"Expired."}',
    { message: 'Expired.' },
  ],
  ['HTML', '<html><title>Bad Gateway</title></html>', { message: 'The provider answered 400: Bad Gateway' }],
  ['nothing', '', { message: 'The provider answered 400 without a body.' }],
  ['torn JSON', '{"error":{"mess', { message: 'The provider answered 400: {"error":{"mess' }],
];

describe('errors of this wire', () => {
  for (const [name, body, expected] of shapes)
    test(`${name} is read, and the status kept`, () => {
      assert.deepEqual(geminiErrors.decode(400, Buffer.from(body)), { status: 400, ...expected });
    });

  test("the gateway's own errors have Google's words", () => {
    const words = (code: 'key_invalid' | 'rate_limited' | 'upstream_timeout'): unknown => {
      const { error } = JSON.parse(geminiErrors.encode(new GatewayError(code, 'No.'), 'r-1').toString()) as {
        error: { code: number; status: string; message: string };
      };
      return [error.code, error.status, error.message];
    };
    assert.deepEqual(words('key_invalid'), [401, 'UNAUTHENTICATED', 'No.']);
    assert.deepEqual(words('rate_limited'), [429, 'RESOURCE_EXHAUSTED', 'No.']);
    assert.deepEqual(words('upstream_timeout'), [504, 'DEADLINE_EXCEEDED', 'No.']);
  });

  test('in a stream an error is an event, and fails a reader that takes events for answers', () => {
    const text = geminiErrors.encodeStream(new GatewayError('internal', 'Broken.'), 'r-1').toString();
    const { data = '' } = readSseFrame(Buffer.from(text));
    assert.equal(text, `data:${data}\n\n`);
    assert.equal((JSON.parse(data) as { error: { code: number } }).error.code, 500);
  });

  test("a provider's error keeps its status, words and place, and names the provider", () => {
    const error = { status: 529, message: 'Busy.', type: 'overloaded_error', param: 'model' };
    const body = JSON.parse(geminiClient.encodeProviderError(error, answerContext()).toString()) as {
      error: { details: object[] };
      provider: string;
    };
    assert.equal(body.provider, 'north');
    const { details, ...shown } = body.error;
    assert.deepEqual(shown, { code: 529, message: 'Busy.', status: 'UNAVAILABLE' });
    assert.match(JSON.stringify(details), /"reason":"overloaded_error".*"field":"model"/);
  });
});
