import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openAiUsage } from './openai-shapes.ts';

const none = {
  promptTokens: 0,
  completionTokens: 0,
  totalTokens: 0,
  cachedTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
  inputAudioTokens: 0,
  outputAudioTokens: 0,
};

test('reads what the hosts of the OpenAI family send', () => {
  const cases: readonly (readonly [object, Partial<typeof none>])[] = [
    [
      { prompt_tokens: 2, completion_tokens: 3, total_tokens: 5 },
      { promptTokens: 2, completionTokens: 3, totalTokens: 5 },
    ],
    [
      { prompt_tokens: 2, completion_tokens: 3 },
      { promptTokens: 2, completionTokens: 3, totalTokens: 5 },
    ],
    [
      {
        input_tokens: 2,
        output_tokens: 3,
        total_tokens: 5,
        input_tokens_details: { cached_tokens: 1 },
        output_tokens_details: { reasoning_tokens: 2 },
      },
      { promptTokens: 2, completionTokens: 3, totalTokens: 5, cachedTokens: 1, reasoningTokens: 2 },
    ],
    [
      { prompt_tokens: 4, total_tokens: 4 },
      { promptTokens: 4, totalTokens: 4 },
    ],
    [{ total_tokens: 9 }, { promptTokens: 9, totalTokens: 9 }],
    [
      {
        prompt_tokens: 5,
        completion_tokens: 1,
        total_tokens: 6,
        prompt_cache_hit_tokens: 3,
        prompt_cache_miss_tokens: 2,
      },
      { promptTokens: 5, completionTokens: 1, totalTokens: 6, cachedTokens: 3 },
    ],
    [
      { prompt_tokens: 5, completion_tokens: 1, total_tokens: 6, cached_tokens: 4 },
      { promptTokens: 5, completionTokens: 1, totalTokens: 6, cachedTokens: 4 },
    ],
    // Reasoning beside the completion, as the total shows …
    [
      {
        prompt_tokens: 291,
        completion_tokens: 26,
        total_tokens: 513,
        completion_tokens_details: { reasoning_tokens: 196 },
      },
      { promptTokens: 291, completionTokens: 222, totalTokens: 513, reasoningTokens: 196 },
    ],
    // … and within it.
    [
      {
        prompt_tokens: 15,
        completion_tokens: 78,
        total_tokens: 93,
        completion_tokens_details: { reasoning_tokens: 64 },
      },
      { promptTokens: 15, completionTokens: 78, totalTokens: 93, reasoningTokens: 64 },
    ],
    [
      {
        prompt_tokens: 5,
        completion_tokens: 5,
        total_tokens: 10,
        prompt_tokens_details: { audio_tokens: 1 },
        completion_tokens_details: { audio_tokens: 2 },
      },
      { promptTokens: 5, completionTokens: 5, totalTokens: 10, inputAudioTokens: 1, outputAudioTokens: 2 },
    ],
    [
      { prompt_tokens: -1, completion_tokens: 'x', total_tokens: 3, prompt_tokens_details: null },
      { promptTokens: 3, totalTokens: 3 },
    ],
  ];
  for (const [usage, expected] of cases)
    assert.deepEqual(openAiUsage.decode(usage), { ...none, ...expected });
});

test('what counts no tokens is no usage', () => {
  for (const value of [undefined, null, 7, [], {}, { type: 'duration', seconds: 3 }]) {
    assert.equal(openAiUsage.decode(value), undefined);
  }
});

test('what is written is read again, and unknown members stay', () => {
  const usage = {
    ...none,
    promptTokens: 7,
    completionTokens: 5,
    totalTokens: 12,
    cachedTokens: 2,
    reasoningTokens: 3,
    outputAudioTokens: 1,
  };
  const written = openAiUsage.encode(usage, { queue_time: 0.5, prompt_tokens_details: { image_tokens: 1 } });
  assert.deepEqual(openAiUsage.decode(written), usage);
  assert.equal(written.queue_time, 0.5);
  assert.equal((written.prompt_tokens_details as Record<string, unknown>).image_tokens, 1);
});
