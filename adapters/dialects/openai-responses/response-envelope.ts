import type { AnswerContext } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import { EncodeReport } from '../../../core/dialects/canonical/encode-report.ts';
import type { JsonObject } from '../json-reading.ts';
import { encodeFormat } from './encode-request.ts';
import { encodeToolChoice, encodeTools } from './encode-tools.ts';

/** What is known of a response when it begins. */
export interface ResponseHead {
  readonly id: string;
  readonly model: string;
  readonly createdAt: number;
  readonly serviceTier: string | undefined;
}

/**
 * A response object in progress: its head, and the settings of the request as the API repeats them. Settings that the
 * caller left to the provider are null where the wire allows it. `store` says whether the gateway keeps it.
 */
export function responseEnvelope(head: ResponseHead, { request, kept }: AnswerContext): JsonObject {
  return {
    id: head.id,
    object: 'response',
    created_at: head.createdAt,
    status: 'in_progress',
    background: false,
    error: null,
    incomplete_details: null,
    instructions: instructionsOf(request),
    max_output_tokens: request.maxOutputTokens ?? null,
    max_tool_calls: null,
    model: head.model,
    output: [],
    parallel_tool_calls: request.parallelToolCalls ?? true,
    previous_response_id: kept?.previousResponseId ?? null,
    prompt_cache_key: request.promptCacheKey ?? null,
    reasoning: { effort: request.reasoning?.effort ?? null, summary: request.reasoning?.summary ?? null },
    safety_identifier: request.safetyIdentifier ?? null,
    service_tier: head.serviceTier ?? request.serviceTier ?? null,
    store: kept !== undefined,
    temperature: request.temperature ?? null,
    text: textOf(request),
    tool_choice:
      request.toolChoice === undefined ? 'auto' : encodeToolChoice(request.toolChoice, request.tools),
    tools: encodeTools(request.tools, new EncodeReport()),
    top_logprobs: request.topLogprobs ?? 0,
    top_p: request.topP ?? null,
    truncation: 'disabled',
    usage: null,
    user: request.user ?? null,
    metadata: request.metadata ?? {},
  };
}

function instructionsOf({ messages }: ChatRequest): string | null {
  const [first] = messages;
  const [part] = first?.parts ?? [];
  return first?.role === 'system' && first.parts.length === 1 && part?.type === 'text' ? part.text : null;
}

function textOf({ responseFormat, verbosity }: ChatRequest): JsonObject {
  const text: JsonObject = { format: encodeFormat(responseFormat ?? { type: 'text' }) };
  if (verbosity !== undefined) text.verbosity = verbosity;
  return text;
}
