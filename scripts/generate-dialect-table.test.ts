import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { describe, it } from 'node:test';
import { dialects, providerDialects } from '../adapters/dialects/index.ts';
import type { ProviderDialect } from '../core/dialects/dialect.ts';
import { dialectTable, tableCommand } from './dialect-table/dialect-table.ts';
import { fateOf } from './dialect-table/judge-request.ts';

describe('docs/dialects.md', async () => {
  const text = await dialectTable(dialects, providerDialects);

  it('is what the dialects do', async () => {
    const written = await readFile(new URL('../docs/dialects.md', import.meta.url), 'utf8');
    assert.equal(written, text, `Run: ${tableCommand}`);
  });

  it('names nothing that is lost without a word', () => {
    assert.deepEqual(
      text.split('\n').filter((line) => line.includes('LOST')),
      [],
    );
  });

  it('has a section for every client and a column for every provider of the grid', () => {
    for (const client of ['openai-chat', 'openai-responses', 'anthropic-messages', 'google-gemini']) {
      assert.ok(text.includes(`## From \`${client}\``), client);
    }
    assert.match(
      text,
      /\| openai-chat +\|.* openai-responses .* anthropic-messages .* google-gemini .* bedrock-converse .* cohere-v2 /,
    );
  });
});

describe('fateOf', () => {
  const client = dialects.get('openai-chat');
  assert.ok(client);
  const says = (body: (seed: unknown) => object, drops: readonly string[] = []): ProviderDialect => ({
    name: 'cohere-v2',
    plan: () => ({
      kind: 'chat',
      codec: {
        encodeRequest(request, _host, report) {
          for (const one of drops) if (request.seed !== undefined) report.drop(one);
          return { path: '/', body: JSON.stringify(body(request.seed)) };
        },
        decodeAnswer: () => assert.fail(),
        eventReader: () => assert.fail(),
        decodeError: () => assert.fail(),
      },
    }),
  });
  const feature = { name: 'seed', marker: /77/, said: { 'openai-chat': { seed: 77 } } };
  const cases: readonly (readonly [string, ProviderDialect, string])[] = [
    ['it is said', says((seed) => ({ seed })), 'kept'],
    ['it is reported', says(() => ({}), ['seed']), 'dropped'],
    ['it is said, and something of it reported', says((seed) => ({ seed }), ['seed']), 'partly'],
    ['neither', says(() => ({})), 'LOST'],
    ['something else is said', says((seed) => ({ set: seed !== undefined })), 'LOST'],
  ];
  for (const [what, host, fate] of cases) {
    it(`${what}: ${fate}`, () => {
      assert.equal(fateOf({ ingress: 'openai-chat', client, host }, feature, undefined), fate);
    });
  }
});
