import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { ProviderRowSchema } from '../core/ports/provider-row.ts';
import { providerTable } from './providers.ts';

const validate = new Ajv2020({ strict: true }).compile(ProviderRowSchema);

describe('the provider table', () => {
  for (const [name, row] of providerTable) {
    it(`has a valid row: ${name}`, () => {
      assert.ok(validate(row), JSON.stringify(validate.errors));
      assert.match(name, /^[a-z0-9]+(-[a-z0-9]+)*$/);
      const { base_url: base } = row;
      if (name === 'mock') return;
      assert.ok(base !== undefined);
      const url = new URL(base);
      assert.equal(url.protocol, 'https:');
      assert.equal(url.href.replace(/\/$/, ''), base, 'as a URL parser writes it, without a trailing slash');
      assert.deepEqual([url.search, url.hash, url.username, url.port], ['', '', '', '']);
      assert.match(url.hostname, /^[a-z0-9.-]+\.[a-z]+$/);
    });
  }

  it('is sorted, and says every name and every host once', () => {
    const source = readFileSync(new URL('./providers.ts', import.meta.url), 'utf8');
    const written = [...source.matchAll(/^ {2}'?([a-z0-9-]+)'?: \{/gm)].map((match) => match[1]);
    assert.deepEqual(written, [...new Set(written)].sort());
    assert.deepEqual(written, [...providerTable.keys()]);
    const hosts = [...providerTable.values()].map((row) => row.base_url);
    assert.equal(new Set(hosts).size, hosts.length);
  });

  it('needs no account for the built-in provider, and asks for its usage', () => {
    const row = { base_url: 'mock:', credentials: 'none', usage_in_stream: 'on_request' };
    assert.deepEqual(providerTable.get('mock'), row);
  });

  it("speaks Anthropic's own wire to Anthropic", () => {
    assert.deepEqual(providerTable.get('anthropic'), {
      dialect: 'anthropic-messages',
      base_url: 'https://api.anthropic.com/v1',
      credentials: 'x-api-key',
      headers: { 'anthropic-version': '2023-06-01' },
      usage_in_stream: 'always',
    });
  });

  const addresses = {
    openai: 'https://api.openai.com/v1',
    groq: 'https://api.groq.com/openai/v1',
    deepseek: 'https://api.deepseek.com',
    openrouter: 'https://openrouter.ai/api/v1',
    'fireworks-ai': 'https://api.fireworks.ai/inference/v1',
  };
  for (const [name, base] of Object.entries(addresses)) {
    it(`knows the address of ${name}`, () => assert.equal(providerTable.get(name)?.base_url, base));
  }
});
