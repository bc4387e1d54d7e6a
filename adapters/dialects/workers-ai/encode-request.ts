import {
  type EncodedRequest,
  type EncodeReport,
  reportForeignExtras,
} from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatRequest, ResponseFormat } from '../../../core/dialects/canonical/chat-request.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import { type JsonObject, stringifyExact } from '../json-reading.ts';
import { encodeMessages } from '../openai-chat/encode-messages.ts';
import { addGiven, applyQuirks } from '../openai-chat/encode-request.ts';
import { given } from '../request-members.ts';
import { reportUnsayable, type Setting } from '../request-settings.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';

/** A request to `POST /run/{model}`: https://developers.cloudflare.com/workers-ai/models/ */
export function encodeRequest(request: ChatRequest, host: HostFacts, report: EncodeReport): EncodedRequest {
  const body: JsonObject = { messages: messagesOf(request, host, report) };
  addTools(body, request, report);
  addGiven(body, {
    max_tokens: request.maxOutputTokens,
    temperature: request.temperature,
    top_p: request.topP,
    top_k: request.topK,
    seed: request.seed,
    frequency_penalty: request.frequencyPenalty,
    presence_penalty: request.presencePenalty,
    response_format: responseFormat(request.responseFormat, report),
  });
  if (request.stream) body.stream = true;
  reportUnsayable(request, unsayable, report);
  reportForeignExtras(request.extras, ['workers-ai'], report);
  const fitted = applyQuirks(body, host, report);
  return { path: runPath(host), body: stringifyExact(Object.assign(fitted, request.extras?.['workers-ai'])) };
}

/** OpenAI's messages, but that content is never null. */
function messagesOf(request: ChatRequest, host: HostFacts, report: EncodeReport): JsonObject[] {
  const messages = encodeMessages(request.messages, { host, report });
  for (const message of messages) message.content ??= '';
  return messages;
}

/** Tools are functions, and nothing wraps them. */
function addTools(body: JsonObject, request: ChatRequest, report: EncodeReport): void {
  const { toolChoice } = request;
  if (toolChoice?.type === 'none') {
    // The wire has no such word; without tools none is called.
    request.tools.forEach((_tool, i) => report.emulate(`tools[${i}]`));
    return;
  }
  const tools: JsonObject[] = [];
  request.tools.forEach((tool, i) => {
    if (tool.type !== 'function') {
      report.drop(`tools[${i}]`);
      return;
    }
    const { name, description, parameters } = tool;
    tools.push(given<JsonObject>({ name, description, parameters }));
    if (tool.strict !== undefined) report.drop(`tools[${i}].function.strict`);
    if (tool.cache !== undefined) report.drop(`tools[${i}].cache_control`);
    reportForeignExtras(tool.extras, ['workers-ai'], report, `tools[${i}].`);
  });
  if (tools.length > 0) body.tools = tools;
  if (toolChoice !== undefined && toolChoice.type !== 'auto') report.drop('tool_choice');
}

/** The schema stands where OpenAI has an object around it. */
function responseFormat(format: ResponseFormat | undefined, report: EncodeReport): JsonObject | undefined {
  if (format === undefined) return undefined;
  if (format.type !== 'json-schema') return format.type === 'json' ? { type: 'json_object' } : undefined;
  if (format.strict !== undefined) report.drop('response_format.json_schema.strict');
  if (format.description !== undefined) report.drop('response_format.json_schema.description');
  if (format.name !== undefined) report.drop('response_format.json_schema.name');
  return { type: 'json_schema', json_schema: format.schema };
}

/** Settings that the wire has no words for. */
const unsayable: readonly Setting[] = [
  ...([
    'parallel_tool_calls',
    'stop',
    'n',
    'logprobs',
    'top_logprobs',
    'logit_bias',
    'reasoning_effort',
  ] as const),
  ...(['verbosity', 'user', 'safety_identifier', 'prompt_cache_key', 'metadata', 'service_tier'] as const),
  ...(['store', 'modalities', 'audio'] as const),
];

/**
 * Where a model runs, below a base URL that ends in `/ai`. Its name keeps its slashes and its `@`. Throws
 * `invalid_request` for a name that would lead elsewhere.
 */
export function runPath({ model }: HostFacts): string {
  return `/run/${model.split('/').map(segment).join('/')}`;
}

function segment(text: string): string {
  if (text === '.' || text === '..') {
    throw new GatewayError(
      'invalid_request',
      'model must be the name of a model of Workers AI (@cf/…); found one with a dot segment.',
      { param: 'model' },
    );
  }
  return encodeURIComponent(text).replaceAll('%40', '@');
}
