import type { ClientCall } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import type { DialectName } from '../../../core/dialects/endpoint.ts';
import type { Extras, JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import { asObject } from '../json-reading.ts';
import { decodeContents } from './decode-contents.ts';
import { decodeGenerationConfig } from './decode-generation-config.ts';
import { decodeToolChoice, decodeTools, otherToolConfig } from './decode-tools.ts';
import { knownMembers, memberObject, otherMembers } from './member.ts';

type Draft = { -readonly [name in keyof ChatRequest]: ChatRequest[name] };

const known = knownMembers([
  'contents',
  'systemInstruction',
  'tools',
  'toolConfig',
  'generationConfig',
  'model',
  'stream',
  'providerOptions',
]);

const dialectNames: ReadonlySet<string> = new Set<DialectName>([
  'openai-chat',
  'openai-completions',
  'openai-responses',
  'azure-openai',
  'anthropic-messages',
  'google-gemini',
  'google-vertex',
  'bedrock-converse',
  'cohere-v2',
  'workers-ai',
]);

/**
 * A generateContent request in the canonical form. Members that only this wire knows (`safetySettings`, `cachedContent`,
 * `labels` …) are kept under its name.
 */
export function decodeGeminiRequest({ body, model, stream }: ClientCall): ChatRequest {
  const request: Draft = { model, stream, messages: decodeContents(body), tools: decodeTools(body) };
  const choice = decodeToolChoice(body);
  if (choice !== undefined) request.toolChoice = choice;
  const config = memberObject(body, 'generationConfig');
  const configOthers = config === undefined ? undefined : decodeGenerationConfig(config, request);
  const own: JsonObject = { ...otherMembers(body, known) };
  if (configOthers !== undefined) own.generationConfig = configOthers;
  const toolOthers = otherToolConfig(body);
  if (toolOthers !== undefined) own.toolConfig = toolOthers;
  const extras = withOptions(own, memberObject(body, 'providerOptions'));
  if (extras !== undefined) request.extras = extras;
  return request;
}

/** The own members, and what the caller put under the name of a dialect. */
function withOptions(own: JsonObject, options: JsonObject | undefined): Extras | undefined {
  const extras: { [name: string]: JsonObject } = {};
  if (Object.keys(own).length > 0) extras['google-gemini'] = own;
  for (const [dialect, value] of Object.entries(options ?? {})) {
    const members = asObject(value);
    if (members !== undefined && dialectNames.has(dialect))
      extras[dialect] = { ...extras[dialect], ...members };
  }
  return Object.keys(extras).length === 0 ? undefined : extras;
}
