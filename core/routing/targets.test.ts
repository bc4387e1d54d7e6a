import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withDialectDefaults } from './targets.ts';

test('a row gets what its wire wants, and keeps what it says itself', () => {
  assert.deepEqual(withDialectDefaults({ dialect: 'anthropic-messages', headers: { 'x-a': '1' } }), {
    dialect: 'anthropic-messages',
    credentials: 'x-api-key',
    usage_in_stream: 'always',
    headers: { 'anthropic-version': '2023-06-01', 'x-a': '1' },
  });
  const own = { dialect: 'google-gemini', credentials: 'bearer' } as const;
  assert.equal(withDialectDefaults(own).credentials, 'bearer');
  assert.equal(withDialectDefaults({ dialect: 'bedrock-converse' }).credentials, 'sigv4');
  const plain = { base_url: 'https://a.example/v1' };
  assert.equal(withDialectDefaults(plain), plain);
});
