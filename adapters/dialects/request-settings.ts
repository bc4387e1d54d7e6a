import type { ChatRequest } from '../../core/dialects/canonical/chat-request.ts';
import type { EncodeReport } from '../../core/dialects/canonical/chat-codec.ts';
import type { Quirks } from '../../core/dialects/host-facts.ts';
import type { JsonObject } from './json-reading.ts';

/** Effort of reasoning, to and from a budget of tokens. */
export const reasoningEffort = { budget: budgetOfEffort, ofBudget: effortOfBudget };

/**
 * Reasoning efforts and the equal token budgets. The numbers of `low`, `medium` and `high` are those documented for
 * Gemini's OpenAI compatibility; `minimal` is the smallest budget that Anthropic accepts.
 */
const budgets: Readonly<Record<string, number>> = {
  minimal: 1024,
  low: 1024,
  medium: 8192,
  high: 24_576,
  xhigh: 32_768,
  max: 32_768,
};

/** The token budget of an effort; undefined for `none` and unknown efforts. */
function budgetOfEffort(effort: string): number | undefined {
  return budgets[effort.toLowerCase()];
}

/** The nearest effort from above for a token budget: 0 is `none`. */
function effortOfBudget(budget: number): 'none' | 'low' | 'medium' | 'high' {
  if (budget <= 0) return 'none';
  if (budget <= 1024) return 'low';
  return budget <= 8192 ? 'medium' : 'high';
}

/** Requested value of each setting, under its name in chat clients; undefined when it only repeats the default. */
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

/** Reports those of `settings` that the request uses: the wire cannot express them. */
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

/** Adapts a body to a host that differs from its dialect: other values, removed members (reported), other names. */
export function applyQuirks(body: JsonObject, quirks: Quirks, report: EncodeReport): void {
  for (const [name, values] of Object.entries(quirks.values ?? {})) {
    const value = body[name];
    if (typeof value === 'string' && Object.hasOwn(values, value)) body[name] = values[value];
  }
  for (const name of quirks.drop ?? []) {
    if (!Object.hasOwn(body, name)) continue;
    delete body[name];
    report.drop(name);
  }
  for (const [name, other] of Object.entries(quirks.rename ?? {})) {
    if (other === name || !Object.hasOwn(body, name)) continue;
    body[other] = body[name];
    delete body[name];
  }
}
