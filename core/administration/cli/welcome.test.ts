import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { featureVariables, type Feature } from '../../access/features.ts';
import { welcome } from './welcome.ts';

const facts: Parameters<typeof welcome>[0] = {
  url: 'http://127.0.0.1:8787',
  config: 'gateway.config.yaml',
  isNewConfig: false,
  data: 'data',
  analytics: 'embedded ClickHouse in data/analytics',
  basePath: '/v1',
  headerPrefix: 'x-acme',
  newOwnerKey: 'wk_secret',
  off: [],
  leftOut: [],
  hasConsole: true,
};

describe('welcome', () => {
  it('says what it listens on, where its data is, and how to send the first request', () => {
    const text = welcome(facts);
    assert.match(text, /Console +http:\/\/127\.0\.0\.1:8787\/console/);
    assert.doesNotMatch(welcome({ ...facts, hasConsole: false }), /onsole/);
    for (const part of [facts.url, facts.config, facts.data, facts.analytics])
      assert.ok(text.includes(part), part);
    assert.match(text, /curl -s http:\/\/127\.0\.0\.1:8787\/v1\/chat\/completions/);
    assert.match(text, /-H 'x-acme-api-key: wk_secret'/);
    assert.match(text, /-H 'x-acme-provider: mock'/);
    assert.match(text, /x-acme-request-id/);
    assert.match(text, /http:\/\/127\.0\.0\.1:8787\/v1\/logs\/<request id>/);
  });

  it('its request is valid JSON in one shell command', () => {
    const text = welcome(facts);
    const json = /-d '([^']+)'/.exec(text)?.[1] ?? '';
    assert.equal((JSON.parse(json) as { model: string }).model, 'mock-gpt');
    const lines = text.split('\n');
    const start = lines.findIndex((line) => line.includes('curl -s') && line.includes('chat/completions'));
    assert.ok(lines.slice(start, start + 4).every((line) => line.endsWith('\\')));
    assert.ok(!lines[start + 4]?.endsWith('\\'));
  });

  it('shows a key only when it is new', () => {
    assert.match(welcome(facts), /Owner key +wk_secret\n +Shown only this once/);
    const later = welcome({ ...facts, newOwnerKey: undefined });
    assert.doesNotMatch(later, /Owner key|wk_/);
    assert.match(later, /x-acme-api-key: <your key>/);
  });

  it('says what is switched off, a line each, and which plugins do not run for it', () => {
    assert.doesNotMatch(welcome(facts), /OFF/);
    const off = Object.keys(featureVariables) as Feature[];
    const lines = welcome({ ...facts, off, leftOut: ['inline-image', 'own'] })
      .split('\n')
      .filter((line) => line.includes('=OFF: '));
    assert.deepEqual(
      lines.map((line) => /^ {2}Off +(\w+)=OFF: \S/.exec(line)?.[1]),
      Object.values(featureVariables),
    );
    assert.deepEqual(
      lines.filter((line) => line.endsWith('do not run (inline-image, own)')),
      lines.slice(0, 1),
    );
    assert.match(welcome({ ...facts, off: ['guardrails'] }), /=OFF: guardrails do not run\n/);
  });

  it('says that it has written the configuration', () => {
    assert.doesNotMatch(welcome(facts), /\(new; /);
    assert.match(welcome({ ...facts, isNewConfig: true }), /gateway\.config\.yaml \(new; edit it/);
  });

  it('without a base path', () => {
    assert.match(welcome({ ...facts, basePath: '/' }), /http:\/\/127\.0\.0\.1:8787\/chat\/completions/);
  });
});
