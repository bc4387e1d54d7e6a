import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import type { DialectName } from '../dialects/endpoint.ts';
import type { Quirks } from '../dialects/host-facts.ts';
import { ProviderRowSchema, type ProviderRow } from './provider-row.ts';

const validate = new Ajv2020({ strict: true, keywords: ['x-expected'] }).compile(ProviderRowSchema);

describe('the schema of a provider row', () => {
  const addresses: readonly (readonly [string, boolean])[] = [
    ['https://api.openai.com/v1', true],
    ['http://127.0.0.1:11434/v1', true],
    ['mock:', true],
    ['https://{azure_resource_name}.openai.azure.com/openai', true],
    ['https://{vertex_region}-aiplatform.googleapis.com', true],
    ['https://api.cloudflare.com/client/v4/accounts/{workers_ai_account_id}/ai', true],
    ['https://', false],
    ['ftp://host/v1', false],
    ['https://host/with blank', false],
    ['https://{Azure}.host', false],
    ['https://{}.host', false],
    ['https://bedrock-runtime.{aws_regoin}.amazonaws.com', false],
    ['https://{aws_secret_access_key}.host', false],
    ['https://{open.host', false],
    ['https://close}.host', false],
  ];
  for (const [address, taken] of addresses) {
    it(`${taken ? 'takes' : 'refuses'} ${address}`, () => {
      assert.equal(validate({ base_url: address }), taken);
    });
  }

  it('takes quirks, further wires and what to do with dropped parts', () => {
    const row: ProviderRow = {
      dialect: 'cohere-v2',
      also_speaks: ['openai-responses'],
      credentials: 'sigv4',
      quirks: {
        rename: { seed: 'random_seed' },
        drop: ['user'],
        roles: { developer: 'system' },
        values: { tool_choice: { required: 'any' } },
        paths: { embeddings: '/embed' },
      },
      on_drop: 'refuse',
    };
    assert.ok(validate(row), JSON.stringify(validate.errors));
  });

  for (const wrong of [
    { dialect: 'morse' },
    { also_speaks: ['openai-chat', 'openai-chat'] },
    { credentials: 'magic' },
    { quirks: { renames: {} } },
    { quirks: { drop: 'user' } },
    { on_drop: 'ignore' },
  ]) {
    it(`refuses ${JSON.stringify(wrong)}`, () => assert.equal(validate(wrong), false));
  }

  it('has every dialect, and quirks as the dialects read them', () => {
    // Checked by the compiler: a name or a member that one side lacks is an error here.
    const named: Record<NonNullable<ProviderRow['dialect']>, number> = wires;
    const row: ProviderRow = {};
    const quirks: Quirks | undefined = row.quirks;
    assert.equal(quirks, undefined);
    for (const dialect of Object.keys(named)) assert.ok(validate({ dialect }), dialect);
  });
});

const wires: Record<DialectName, number> = {
  'openai-chat': 1,
  'openai-completions': 2,
  'openai-responses': 3,
  'azure-openai': 4,
  'anthropic-messages': 5,
  'google-gemini': 6,
  'google-vertex': 7,
  'bedrock-converse': 8,
  'cohere-v2': 9,
  'workers-ai': 10,
};
