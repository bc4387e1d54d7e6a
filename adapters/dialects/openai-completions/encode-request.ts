import type { EncodedRequest } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import { reportForeignExtras, type EncodeReport } from '../../../core/dialects/canonical/encode-report.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import { stringifyExact } from '../exact-json.ts';
import type { JsonObject } from '../json-reading.ts';
import { addGiven, addSampling, applyQuirks } from '../openai-chat/encode-request.ts';
import { encodePrompt } from './encode-prompt.ts';

/** A text completions request as the host wants it. */
export function encodeRequest(request: ChatRequest, host: HostFacts, report: EncodeReport): EncodedRequest {
  const body: JsonObject = { model: host.model, prompt: encodePrompt(request.messages, report) };
  addSampling(body, request, host, report);
  // The wire wants a number; the most likely token alone is the least that says "yes".
  const logprobs = request.logprobs === true ? (request.topLogprobs ?? 0) : undefined;
  addGiven(body, { logprobs, user: request.user });
  if (request.stream) {
    body.stream = true;
    if (host.usageInStream === 'on_request') body.stream_options = { include_usage: true };
  }
  reportUnsayable(request, report);
  reportForeignExtras(request.extras, ['openai-completions'], report);
  return {
    path: host.quirks.paths?.completions ?? '/completions',
    body: stringifyExact(
      Object.assign(applyQuirks(body, host, report), request.extras?.['openai-completions']),
    ),
  };
}

/** Settings of a conversation that a prompt has no words for. */
function reportUnsayable(request: ChatRequest, report: EncodeReport): void {
  request.tools.forEach((_tool, i) => report.drop(`tools[${i}]`));
  const { responseFormat } = request;
  const settings: JsonObject = {
    tool_choice: request.toolChoice,
    parallel_tool_calls: request.parallelToolCalls,
    response_format: responseFormat?.type === 'text' ? undefined : responseFormat,
    reasoning_effort: request.reasoning,
    verbosity: request.verbosity,
    safety_identifier: request.safetyIdentifier,
    prompt_cache_key: request.promptCacheKey,
    metadata: request.metadata,
    service_tier: request.serviceTier,
    store: request.store,
    modalities:
      request.modalities?.every((modality) => modality === 'text') === true ? undefined : request.modalities,
    audio: request.audio,
  };
  for (const [name, value] of Object.entries(settings)) if (value !== undefined) report.drop(name);
}
