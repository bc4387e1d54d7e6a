import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { bedrockModel } from './bedrock-model.ts';
import { hostOf, models } from './converse.test-support.ts';

describe('readBedrockModel', () => {
  const table: readonly (readonly [id: string, vendor: string, name: string])[] = [
    ['anthropic.claude-3-haiku-20240307-v1:0', 'anthropic', 'claude-3-haiku-20240307-v1:0'],
    ['eu.anthropic.claude-sonnet-4-20250514-v1:0', 'anthropic', 'claude-sonnet-4-20250514-v1:0'],
    ['global.amazon.nova-2-lite-v1:0', 'amazon', 'nova-2-lite-v1:0'],
    ['us-gov.amazon.nova-pro-v1:0', 'amazon', 'nova-pro-v1:0'],
    ['arn:aws:bedrock:us-east-1::foundation-model/cohere.rerank-v3-5:0', 'cohere', 'rerank-v3-5:0'],
    [
      'arn:aws:bedrock:us-east-1:1234:inference-profile/us.meta.llama3-1-8b-instruct-v1:0',
      'meta',
      'llama3-1-8b-instruct-v1:0',
    ],
    ['arn:aws:bedrock:us-east-1:1234:application-inference-profile/a1b2', '', ''],
    ['my-imported.model', '', ''],
  ];
  for (const [id, vendor, name] of table) {
    it(id, () => assert.deepEqual(bedrockModel.read(id), { id, vendor, name }));
  }
});

describe('modelOfHost', () => {
  it('takes the word of the configuration for an id that does not tell', () => {
    const host = hostOf(models.profile, { aws_bedrock_model: 'anthropic.claude-haiku-4-5-20251001-v1:0' });
    assert.deepEqual(bedrockModel.ofHost(host), {
      id: models.profile,
      vendor: 'anthropic',
      name: 'claude-haiku-4-5-20251001-v1:0',
    });
  });

  it('believes an id that tells', () => {
    assert.equal(
      bedrockModel.ofHost(hostOf(models.nova, { aws_bedrock_model: 'cohere.x' })).vendor,
      'amazon',
    );
  });
});

it('escapes a model as one segment of the path', () => {
  assert.equal(
    bedrockModel.path(models.profile, 'converse'),
    '/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A123456789012%3Aapplication-inference-profile%2Fabc123/converse',
  );
});

it('knows what models can', () => {
  const can = (id: string) => {
    const model = bedrockModel.read(id);
    return [
      bedrockModel.hasStructuredOutput(model),
      bedrockModel.forcedChoice(model),
      bedrockModel.hasPromptCache(model),
    ];
  };
  assert.deepEqual(can(models.claude), [true, 'tool', true]);
  assert.deepEqual(can(models.oldClaude), [false, 'tool', true]);
  assert.deepEqual(can('anthropic.claude-opus-4-1-20250805-v1:0'), [false, 'tool', true]);
  assert.deepEqual(can('anthropic.claude-sonnet-5'), [false, 'tool', true]);
  assert.deepEqual(can('anthropic.claude-opus-5-5'), [false, 'auto', true]);
  assert.deepEqual(can(models.nova), [false, 'tool', true]);
  assert.deepEqual(can('qwen.qwen3-32b-v1:0'), [true, 'tool', false]);
  assert.deepEqual(can(models.mistral), [false, 'any', false]);
  assert.deepEqual(can(models.llama), [false, 'auto', false]);
  assert.deepEqual(can(models.profile), [false, 'tool', true]);
});
