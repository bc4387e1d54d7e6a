import type { Finish } from '../../../core/dialects/canonical/chat-answer.ts';
import type { Extras } from '../../../core/dialects/canonical/chat-part.ts';
import { asObject, asText, type JsonObject } from '../json-reading.ts';
import { unknownMembers } from '../openai-chat/member-reading.ts';

/** Members of a response that the canonical answer has, or that only repeat the request. */
const knownMembers: ReadonlySet<string> = new Set(
  `id object created_at completed_at status error incomplete_details model output output_text usage background conversation
  instructions max_output_tokens max_tool_calls parallel_tool_calls previous_response_id prompt prompt_cache_key
  prompt_cache_options prompt_cache_retention reasoning safety_identifier service_tier store temperature text tool_choice
  tools top_logprobs top_p truncation user metadata frequency_penalty presence_penalty`.split(/\s+/),
);

/** Why a response ended. `calls` says whether it holds a call for the client. */
export function finishOf(response: JsonObject, calls: boolean): Finish {
  const status = asText(response.status) ?? 'completed';
  const reason = asText(asObject(response.incomplete_details)?.reason);
  const raw = reason ?? status;
  switch (reason ?? status) {
    case 'completed':
      return { reason: calls ? 'tool-calls' : 'stop', raw };
    case 'max_output_tokens':
    case 'max_tokens':
      return { reason: 'length', raw };
    case 'content_filter':
      return { reason: 'content-filter', raw };
    case 'pause_turn':
      return { reason: 'pause', raw };
    case 'failed':
    case 'cancelled':
      return { reason: 'error', raw };
    default:
      return { reason: 'unknown', raw };
  }
}

/** What else a response says of itself (filter results, billing …). */
export function responseExtras(response: JsonObject): Extras | undefined {
  const unknown = unknownMembers(response, knownMembers);
  return unknown === undefined ? undefined : { 'openai-responses': unknown };
}

/** The tier that served the request; `auto` is only what was asked for. */
export function serviceTier(response: JsonObject): string | undefined {
  const tier = asText(response.service_tier);
  return tier === 'auto' ? undefined : tier;
}
