import type { Faults } from '../../fault-words.ts';

/** Usage as OpenAI's chat reports it; nothing when the fault `usage=none` asks for none. */
export function chatUsage(prompt: number, completion: number, faults: Faults): object | undefined {
  if (faults.usage === 'none') return undefined;
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: 0, audio_tokens: 0 },
    completion_tokens_details: {
      reasoning_tokens: 0,
      audio_tokens: 0,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
  };
}
