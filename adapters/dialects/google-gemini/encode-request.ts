import type { EncodedRequest } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import type { JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import { mergeExtras } from '../../../core/dialects/canonical/collect-answer.ts';
import { reportForeignExtras, type EncodeReport } from '../../../core/dialects/canonical/encode-report.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import { stringifyExact } from '../exact-json.ts';
import { asObject } from '../json-reading.ts';
import { applyQuirks } from '../apply-quirks.ts';
import { reportUnsayable, type Setting } from '../report-unsayable.ts';
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
  const path = pathOf(host, request.stream ? 'streamGenerateContent' : 'generateContent');
  const body = stringifyExact(geminiBody(request, host, report));
  return { path: request.stream ? `${path}?alt=sse` : path, body };
}

/** The body of such a request. */
export function geminiBody(request: ChatRequest, host: HostFacts, report: EncodeReport): JsonObject {
  const { contents, systemInstruction } = encodeContents(request.messages, host.model, report);
  const { tools, functionCallingConfig } = encodeTools(request, report);
  const generationConfig = encodeGenerationConfig(request, host.model, report);
  const body: JsonObject = { contents };
  if (systemInstruction !== undefined) body.systemInstruction = systemInstruction;
  if (tools.length > 0) body.tools = tools;
  if (functionCallingConfig !== undefined) body.toolConfig = { functionCallingConfig };
  if (Object.keys(generationConfig).length > 0) body.generationConfig = generationConfig;
  reportUnsayable(request, unsayable, report);
  reportForeignExtras(request.extras, ['google-gemini', 'google-vertex'], report);
  applyExtras(body, request);
  applyQuirks(body, host.quirks, report);
  return body;
}

/** What no member of this wire says. */
const unsayable: readonly Setting[] = [
  ...(['logit_bias', 'parallel_tool_calls', 'user', 'safety_identifier', 'prompt_cache_key'] as const),
  ...(['metadata', 'service_tier', 'store', 'verbosity'] as const),
];

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
