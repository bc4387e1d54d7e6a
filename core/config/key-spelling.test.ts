import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { knownKey, spellingOf } from './describe-schema.ts';

describe('spellingOf', () => {
  for (const [written, same] of [
    ['max_size_bytes', 'maxSizeBytes'],
    ['base_url', 'baseURL'],
    ['http_proxy_host', 'httpProxyHost'],
    ['use_http2_only', 'useHttp2Only'],
    ['strict_open_ai_compliance', 'strict_openai_compliance'],
    ['strict_open_ai_compliance', 'strictOpenAiCompliance'],
    ['strict_open_ai_compliance', 'strictOpenAICompliance'],
    ['strict_open_ai_compliance', 'strictOpenaiCompliance'],
    ['use_retry_after_headers', 'use_retry_after_header'],
    ['use_retry_after_headers', 'useRetryAfterHeader'],
  ] as const)
    it(`${written} = ${same}`, () => assert.equal(spellingOf(written), spellingOf(same)));

  for (const [written, other] of [
    ['max_size', 'maxsize'],
    ['x-header', 'x_header'],
    ['Port', 'port'],
    ['header', 'headers'],
  ] as const)
    it(`${written} ≠ ${other}`, () => assert.notEqual(spellingOf(written), spellingOf(other)));
});

describe('knownKey', () => {
  it('prefers the key itself where a schema knows both spellings', () => {
    const known = new Set(['maxTokens', 'max_tokens']);
    assert.equal(knownKey('max_tokens', known), 'max_tokens');
    assert.equal(knownKey('maxTokens', known), 'maxTokens');
  });
  it('finds a key in another spelling', () =>
    assert.equal(knownKey('max_size_bytes', new Set(['maxSizeBytes'])), 'maxSizeBytes'));
  it('finds nothing else', () => assert.equal(knownKey('maxSize', new Set(['maxSizeBytes'])), undefined));
});
