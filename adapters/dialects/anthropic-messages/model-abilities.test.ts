import assert from 'node:assert/strict';
import { test } from 'node:test';
import { abilitiesOf, type ModelAbilities } from './model-abilities.ts';

const models: readonly (readonly [string, Partial<ModelAbilities>])[] = [
  [
    'claude-3-haiku-20240307',
    { effort: false, thinkingBudget: false, structuredOutput: false, sampling: true },
  ],
  [
    'claude-3-7-sonnet-latest',
    { effort: false, thinkingBudget: true, thinkingOff: true, bothSampling: true },
  ],
  ['claude-sonnet-4-20250514', { thinkingBudget: true, structuredOutput: false, bothSampling: true }],
  ['claude-opus-4-1-20250805', { thinkingBudget: true, structuredOutput: true, bothSampling: false }],
  ['claude-haiku-4-5@20251001', { effort: false, thinkingBudget: true, structuredOutput: true }],
  [
    'eu.anthropic.claude-opus-4-5-20251101-v1:0',
    { effort: true, effortMax: false, adaptiveThinking: false, thinkingBudget: true },
  ],
  [
    'claude-sonnet-4-6',
    { effort: true, effortMax: true, effortXhigh: false, adaptiveThinking: true, sampling: true },
  ],
  ['claude-opus-4-7', { effortXhigh: true, thinkingBudget: false, sampling: false, thinkingOff: true }],
  ['claude-sonnet-5-5', { thinkingOff: false, forcedTool: false }],
  ['claude-haiku-5-5', { thinkingOff: true, forcedTool: true, effort: true }],
  ['claude-fable-5', { thinkingOff: false, forcedTool: true }],
  ['claude-fable-5-1', { thinkingOff: false, forcedTool: false }],
  ['claude-2.1', { thinkingBudget: false, sampling: true }],
  ['claude-instant-1.2', { thinkingBudget: false, sampling: true }],
  ['claude-next', { effort: true, structuredOutput: true, sampling: false }],
  ['MiniMax-M2', { effort: false, thinkingBudget: true, structuredOutput: false, bothSampling: true }],
];
for (const [model, expected] of models) {
  test(model, () => {
    const found = abilitiesOf(model);
    for (const [ability, value] of Object.entries(expected)) {
      assert.equal(found[ability as keyof ModelAbilities], value, ability);
    }
  });
}
