import type { EncodedRequest } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import type { JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import { mergeExtras } from '../../../core/dialects/canonical/collect-answer.ts';
import { reportForeignExtras, type EncodeReport } from '../../../core/dialects/canonical/encode-report.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import { stringifyExact } from '../exact-json.ts';
import { asObject } from '../json-reading.ts';
import { applyQuirks } from '../apply-quirks.ts';
import { encodeContents } from './encode-contents.ts';
import { encodeGenerationConfig } from './encode-generation-config.ts';
import { encodeTools } from './encode-tools.ts';

/** Where a request for a model goes, below the host's base URL. */
export type ModelPathOf = (host: HostFacts, method: string) => string;

/** Members of a request whose members are joined with those that the caller gave, not replaced by them. */
const joined = ['generationConfig', 'toolConfig'];

/** A chat request in this wire. The model stands in the path. */
export function encodeGeminiRequest(
  request: ChatRequest,
  host: HostFacts,
  report: EncodeReport,
  pathOf: ModelPathOf,
): EncodedRequest {
  const { contents, systemInstruction } = encodeContents(request.messages, host.model, report);
  const { tools, functionCallingConfig } = encodeTools(request, report);
  const generationConfig = encodeGenerationConfig(request, host.model, report);
  const body: JsonObject = { contents };
  if (systemInstruction !== undefined) body.systemInstruction = systemInstruction;
  if (tools.length > 0) body.tools = tools;
  if (functionCallingConfig !== undefined) body.toolConfig = { functionCallingConfig };
  if (Object.keys(generationConfig).length > 0) body.generationConfig = generationConfig;
  reportUnsaid(request, report);
  applyExtras(body, request);
  applyQuirks(body, host.quirks, report);
  const path = pathOf(host, request.stream ? 'streamGenerateContent' : 'generateContent');
  return { path: request.stream ? `${path}?alt=sse` : path, body: stringifyExact(body) };
}

/** What no member of this wire says. */
function reportUnsaid(request: ChatRequest, report: EncodeReport): void {
  if (request.logitBias !== undefined) report.drop('logit_bias');
  if (request.parallelToolCalls === false) report.drop('parallel_tool_calls');
  if (request.user !== undefined) report.drop('user');
  if (request.safetyIdentifier !== undefined) report.drop('safety_identifier');
  if (request.promptCacheKey !== undefined) report.drop('prompt_cache_key');
  if (request.metadata !== undefined) report.drop('metadata');
  if (request.serviceTier !== undefined && request.serviceTier !== 'auto') report.drop('service_tier');
  if (request.store === true) report.drop('store');
  if (request.verbosity !== undefined) report.drop('verbosity');
  reportForeignExtras(request.extras, ['google-gemini', 'google-vertex'], report);
}

function applyExtras(body: JsonObject, { extras }: ChatRequest): void {
  const gemini = extras?.['google-gemini'];
  const vertex = extras?.['google-vertex'];
  const own = mergeExtras(
    gemini === undefined ? undefined : { 'google-gemini': gemini },
    vertex === undefined ? undefined : { 'google-gemini': vertex },
  )?.['google-gemini'];
  if (own === undefined) return;
  for (const [name, value] of Object.entries(own)) {
    const existing = asObject(body[name]);
    body[name] =
      existing !== undefined && joined.includes(name) ? { ...existing, ...asObject(value) } : value;
  }
}
