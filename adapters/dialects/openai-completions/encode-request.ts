import type { EncodedRequest } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import { reportForeignExtras, type EncodeReport } from '../../../core/dialects/canonical/encode-report.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import { stringifyExact } from '../exact-json.ts';
import type { JsonObject } from '../json-reading.ts';
import { addGiven, addSampling, applyQuirks } from '../openai-chat/encode-request.ts';
import { reportUnsayable, type Setting } from '../report-unsayable.ts';
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
  request.tools.forEach((_tool, i) => report.drop(`tools[${i}]`));
  reportUnsayable(request, unsayable, report);
  reportForeignExtras(request.extras, ['openai-completions'], report);
  return {
    path: host.quirks.paths?.completions ?? '/completions',
    body: stringifyExact(
      Object.assign(applyQuirks(body, host, report), request.extras?.['openai-completions']),
    ),
  };
}

/** Settings of a conversation that a prompt has no words for. */
const unsayable: readonly Setting[] = [
  ...(['tool_choice', 'parallel_tool_calls', 'response_format', 'reasoning_effort', 'verbosity'] as const),
  ...(['safety_identifier', 'prompt_cache_key', 'metadata', 'service_tier', 'store', 'modalities'] as const),
  'audio',
];
