import type { EncodedRequest } from '../../../core/dialects/canonical/chat-codec.ts';
import type {
  ChatRequest,
  ReasoningSettings,
  ResponseFormat,
} from '../../../core/dialects/canonical/chat-request.ts';
import type { EncodeReport } from '../../../core/dialects/canonical/encode-report.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import { stringifyExact } from '../exact-json.ts';
import { asArray, type JsonObject } from '../json-reading.ts';
import { applyQuirks } from '../apply-quirks.ts';
import { reportUnsayable, type Setting } from '../report-unsayable.ts';
import { budgetOfEffort } from '../reasoning-effort.ts';
import { encodeMessages } from './encode-messages.ts';
import { encodeTools } from './encode-tools.ts';
import { ownExtras } from './request-report.ts';

/** Members of Cohere's own that clients of other wires write at the top level, too. */
const known: ReadonlySet<string> = new Set([
  'citation_options',
  'documents',
  'k',
  'p',
  'priority',
  'raw_prompting',
  'safety_mode',
  'strict_tools',
]);

/** The body of `POST /v2/chat`: https://docs.cohere.com/reference/chat */
export function encodeCohereRequest(
  request: ChatRequest,
  host: HostFacts,
  report: EncodeReport,
): EncodedRequest {
  const body: JsonObject = { model: host.model };
  const { messages, documents } = encodeMessages(request, /reason|think/i.test(host.model), report);
  body.messages = messages;
  if (request.stream) body.stream = true;
  encodeTools(body, request, report);
  encodeSampling(body, request, report);
  encodeResponseFormat(body, request.responseFormat);
  if (request.reasoning !== undefined) encodeThinking(body, request.reasoning, report);
  reportUnsayable(request, unsayable, report);
  encodeExtras(body, request, report);
  // Files come first: `doc:0` in a citation is then the first of them.
  if (documents.length > 0) body.documents = [...documents, ...asArray(body.documents)];
  applyQuirks(body, host.quirks, report);
  return { path: host.quirks.paths?.['chat.completions'] ?? '/v2/chat', body: stringifyExact(body) };
}

function encodeSampling(body: JsonObject, request: ChatRequest, report: EncodeReport): void {
  const { frequencyPenalty, presencePenalty, topP } = request;
  if (request.maxOutputTokens !== undefined) body.max_tokens = request.maxOutputTokens;
  if (request.temperature !== undefined) body.temperature = request.temperature;
  if (topP !== undefined) body.p = within(topP, [0.01, 0.99], 'top_p', report);
  if (request.topK !== undefined) body.k = request.topK;
  if (frequencyPenalty !== undefined)
    body.frequency_penalty = within(frequencyPenalty, [0, 1], 'frequency_penalty', report);
  if (presencePenalty !== undefined)
    body.presence_penalty = within(presencePenalty, [0, 1], 'presence_penalty', report);
  if (request.seed !== undefined) body.seed = request.seed;
  if (request.stop !== undefined && request.stop.length > 0) body.stop_sequences = request.stop;
  if (request.logprobs !== undefined) body.logprobs = request.logprobs;
}

/** The nearest value of the range that Cohere documents and refuses to leave. */
function within(
  value: number,
  [least, most]: readonly [number, number],
  name: string,
  report: EncodeReport,
): number {
  const near = Math.min(most, Math.max(least, value));
  if (near !== value) report.emulate(name);
  return near;
}

function encodeResponseFormat(body: JsonObject, format: ResponseFormat | undefined): void {
  if (format === undefined) return;
  if (format.type === 'json-schema')
    body.response_format = { type: 'json_object', json_schema: format.schema };
  else body.response_format = { type: format.type === 'json' ? 'json_object' : 'text' };
}

function encodeThinking(body: JsonObject, settings: ReasoningSettings, report: EncodeReport): void {
  const { effort, budgetTokens, enabled, adaptive, summary } = settings;
  if (summary === 'none') report.drop('reasoning.summary');
  if (enabled === false || effort === 'none') {
    body.thinking = { type: 'disabled' };
    return;
  }
  const budget = budgetTokens ?? (effort === undefined ? undefined : budgetOfEffort(effort));
  if (effort !== undefined && budgetTokens === undefined) {
    if (budget === undefined) report.drop('reasoning_effort');
    else report.emulate('reasoning_effort');
  }
  if (budget !== undefined) body.thinking = { type: 'enabled', token_budget: budget };
  else if (enabled === true || adaptive === true) body.thinking = { type: 'enabled' };
}

const unsayable: readonly Setting[] = [
  ...(['n', 'top_logprobs', 'logit_bias', 'verbosity', 'user', 'safety_identifier'] as const),
  ...(['prompt_cache_key', 'metadata', 'service_tier', 'store', 'modalities', 'audio'] as const),
];

function encodeExtras(body: JsonObject, request: ChatRequest, report: EncodeReport): void {
  for (const [dialect, members] of Object.entries(request.extras ?? {})) {
    if (dialect === 'cohere-v2') continue;
    for (const [name, value] of Object.entries(members)) {
      if (known.has(name)) body[name] = value;
      else report.drop(name);
    }
  }
  Object.assign(body, ownExtras(request.extras));
}
