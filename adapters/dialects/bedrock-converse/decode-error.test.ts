import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { bedrockErrors } from './errors.ts';

describe('error answers', () => {
  const rows: readonly (readonly [body: string, expected: object])[] = [
    ['{"message":"No."}', { message: 'No.' }],
    ['{"Message":"No."}', { message: 'No.' }],
    ['{"error":"No."}', { message: 'No.' }],
    ['{"error":{"message":"No."}}', { message: 'No.' }],
    [
      '{"__type":"com.amazon.coral.service#AccessDeniedException:http://x","message":"No."}',
      { message: 'No.', type: 'AccessDeniedException' },
    ],
    [
      '{"Output":{"__type":"com.amazon.coral.service#UnknownOperationException"},"Version":"1.0"}',
      { message: 'UnknownOperationException', type: 'UnknownOperationException' },
    ],
    ['<html><title>502</title>Bad</html>', { message: 'The provider answered 400: 502 Bad' }],
    ['', { message: 'The provider answered 400 without a body.' }],
    ['{"mess', { message: 'The provider answered 400: {"mess' }],
    ['"text"', { message: 'The provider answered 400: "text"' }],
  ];
  for (const [body, expected] of rows) {
    it(body === '' ? 'nothing' : body, () =>
      assert.deepEqual(bedrockErrors.decode(400, Buffer.from(body)), { status: 400, ...expected }),
    );
  }
});

describe('exceptions in a stream', () => {
  const rows: readonly (readonly [
    name: string,
    told: object | undefined,
    status: number,
    message: string,
  ])[] = [
    ['throttlingException', { message: 'Slow down.' }, 429, 'Slow down.'],
    ['ThrottlingException', { Message: 'Slow down.' }, 429, 'Slow down.'],
    ['validationException', { message: 'Bad.' }, 400, 'Bad.'],
    ['internalServerException', { message: 'Oops.' }, 500, 'Oops.'],
    ['serviceUnavailableException', { message: 'Later.' }, 503, 'Later.'],
    ['modelTimeoutException', { message: 'Late.' }, 408, 'Late.'],
    ['modelStreamErrorException', { message: 'Torn.' }, 424, 'Torn.'],
    [
      'modelStreamErrorException',
      { message: 'Torn.', originalStatusCode: 500, originalMessage: 'Why.' },
      500,
      'Torn. Why.',
    ],
    ['modelStreamErrorException', { message: 'Torn.', originalStatusCode: 200 }, 424, 'Torn.'],
    ['newException', undefined, 502, "The provider's stream ended in newException."],
  ];
  for (const [name, told, status, message] of rows) {
    it(`${name} ${JSON.stringify(told)}`, () =>
      assert.deepEqual(bedrockErrors.ofStream(name, told as Record<string, unknown> | undefined), {
        status,
        message,
        type: name,
      }));
  }
});
