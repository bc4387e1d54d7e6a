import type { ChatRequest } from '../../core/dialects/canonical/chat-request.ts';
import type { EncodeReport } from '../../core/dialects/canonical/encode-report.ts';

/** What a request asks for by each setting, under the name that chat clients know; undefined where it only says the default. */
const asked = {
  frequency_penalty: (request: ChatRequest) => unless(request.frequencyPenalty, 0),
  presence_penalty: (request: ChatRequest) => unless(request.presencePenalty, 0),
  seed: (request: ChatRequest) => request.seed,
  stop: (request: ChatRequest) => request.stop,
  n: (request: ChatRequest) => unless(request.n, 1),
  logprobs: (request: ChatRequest) => unless(request.logprobs, false),
  top_logprobs: (request: ChatRequest) => unless(request.topLogprobs, 0),
  logit_bias: (request: ChatRequest) => request.logitBias,
  tool_choice: (request: ChatRequest) => request.toolChoice,
  parallel_tool_calls: (request: ChatRequest) => unless(request.parallelToolCalls, true),
  response_format: (request: ChatRequest) =>
    request.responseFormat?.type === 'text' ? undefined : request.responseFormat,
  reasoning_effort: (request: ChatRequest) => request.reasoning,
  verbosity: (request: ChatRequest) => request.verbosity,
  user: (request: ChatRequest) => request.user,
  safety_identifier: (request: ChatRequest) => request.safetyIdentifier,
  prompt_cache_key: (request: ChatRequest) => request.promptCacheKey,
  metadata: (request: ChatRequest) => request.metadata,
  service_tier: (request: ChatRequest) => unless(request.serviceTier, 'auto'),
  store: (request: ChatRequest) => unless(request.store, false),
  modalities: (request: ChatRequest) => request.modalities?.find((one) => one !== 'text'),
  audio: (request: ChatRequest) => request.audio,
} satisfies Record<string, (request: ChatRequest) => unknown>;

/** A setting by the name under which it is reported. */
export type Setting = keyof typeof asked;

/** Reports those of `settings` that the request asks for: the wire has no words for them. */
export function reportUnsayable(
  request: ChatRequest,
  settings: readonly Setting[],
  report: EncodeReport,
): void {
  for (const name of settings) if (asked[name](request) !== undefined) report.drop(name);
}

function unless<T>(value: T | undefined, byDefault: T): T | undefined {
  return value === byDefault ? undefined : value;
}
