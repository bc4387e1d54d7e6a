import { GatewayError } from '../../errors/gateway-error.ts';
import type { JsonObject, JsonValue } from '../../pipeline/context.ts';
import type { PromptData } from '../../ports/record-kinds.ts';
import type { RenderedPrompt } from './prompt-template.ts';

/** A request that a provider understands, made of a prompt. */
export interface PromptRequest {
  readonly path: '/chat/completions' | '/completions';
  readonly body: JsonObject;
}

/** What the client of a saved prompt may not say: it is what the prompt is for. */
const ofTheTemplate = ['messages', 'prompt'] as const;

/**
 * The body: what the template came to, the version's model, parameters, functions and tools, and over all that what the
 * caller says beside `variables` and `strict`. Members that are null are left out. A plain text becomes one message of a user, or the
 * prompt of `/completions` when the version's metadata say `"type": "completion"`. Throws `invalid_request`.
 */
export function promptRequest(
  data: PromptData,
  rendered: RenderedPrompt,
  overrides: Readonly<Record<string, JsonValue>>,
): PromptRequest {
  for (const name of ofTheTemplate) {
    if (!Object.hasOwn(overrides, name)) continue;
    throw new GatewayError(
      'invalid_request',
      `"${name}" comes from the prompt's template. Leave it out, or send the request to /chat/completions.`,
      { param: name },
    );
  }
  const isCompletion = rendered.kind === 'text' && data.metadata['type'] === 'completion';
  const body: JsonObject = {};
  if (rendered.kind === 'messages') body['messages'] = rendered.messages;
  else if (isCompletion) body['prompt'] = rendered.text;
  else body['messages'] = [{ role: 'user', content: rendered.text }];
  if (data.model !== '') body['model'] = withoutProvider(data);
  for (const [name, value] of Object.entries(data.parameters))
    if (!isOfTheTemplate(name)) add(body, name, json(value));
  if (data.functions.length > 0) add(body, 'functions', json(data.functions));
  if (data.tools.length > 0) add(body, 'tools', json(data.tools));
  if (data.tools.length > 0) add(body, 'tool_choice', json(data.toolChoice));
  for (const [name, value] of Object.entries(overrides)) {
    if (name !== 'variables' && name !== 'strict') add(body, name, value);
  }
  return { path: isCompletion ? '/completions' : '/chat/completions', body };
}

function isOfTheTemplate(name: string): boolean {
  return ofTheTemplate.some((one) => one === name);
}

/** The provider is told apart from the model, which may have been saved as `@slug/model`. */
function withoutProvider({ model, virtualKey }: PromptData): string {
  const prefix = `@${virtualKey.replace(/^@/, '')}/`;
  return virtualKey !== '' && model.startsWith(prefix) ? model.slice(prefix.length) : model;
}

/** Nobody changes what is stored: it goes into a body that is written at once. */
function json(value: PromptData['toolChoice']): JsonValue {
  return value as JsonValue;
}

/** Null takes away what was said before. */
function add(body: JsonObject, name: string, value: JsonValue): void {
  if (name === '__proto__') return;
  if (value === null) delete body[name];
  else body[name] = value;
}
