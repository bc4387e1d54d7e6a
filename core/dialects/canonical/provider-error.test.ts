import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EncodeReport, reportForeignExtras } from './chat-codec.ts';
import { unreadableProviderError } from './chat-answer.ts';

test('HTML, plain text, long text and nothing become one sentence with the status', () => {
  const message = (body: string) => unreadableProviderError(502, Buffer.from(body)).message;
  assert.equal(
    message(
      '<html><head><style>a{}</style><title>502 Bad Gateway</title></head><body><h1>nginx</h1></body></html>',
    ),
    'The provider answered 502: 502 Bad Gateway nginx',
  );
  assert.equal(message('upstream connect error'), 'The provider answered 502: upstream connect error');
  assert.equal(message('  '), 'The provider answered 502 without a body.');
  assert.equal(message('x'.repeat(9999)).length, 'The provider answered 502: '.length + 501);
  assert.equal(message('<svg/>'), 'The provider answered 502: an HTML page');
});

test('what is dropped is named once, extras of other dialects by their place', () => {
  const report = new EncodeReport();
  report.drop('seed');
  report.drop('seed');
  reportForeignExtras(
    { 'openai-chat': { logit_bias: {}, user: 'u' }, 'google-gemini': { labels: {} } },
    ['google-gemini'],
    report,
    'messages[0].',
  );
  assert.deepEqual(report.dropped, ['seed', 'messages[0].logit_bias', 'messages[0].user']);
});
