import type { ChatAnswer } from '../../../core/dialects/canonical/chat-answer.ts';
import type { DecodeContext } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatPart } from '../../../core/dialects/canonical/chat-part.ts';
import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { parseExactObject } from '../exact-json.ts';
import { asArray, asObject, asText, type JsonObject } from '../json-reading.ts';
import { answerToolName } from './answer-tool.ts';
import { decodeBlock } from './decode-block.ts';
import { anthropicErrorMessage, decodeAnthropicUsage } from './message-facts.ts';
import { decodeTier } from './encode-usage.ts';
import { dialectName } from './own-dialect.ts';
import { finishOf } from './stop-reason.ts';

/** Members of a message that the canonical form holds. */
const messageMembers = new Set([
  'id',
  'type',
  'role',
  'model',
  'content',
  'stop_reason',
  'stop_sequence',
  'usage',
]);

/** Members of a usage that the canonical form holds. */
const usageMembers = new Set([
  'input_tokens',
  'output_tokens',
  'cache_read_input_tokens',
  'cache_creation_input_tokens',
  'output_tokens_details',
  'service_tier',
]);

/** A complete message. Throws `upstream_invalid` for anything else. */
export function decodeAnswer(body: Buffer, { request }: DecodeContext): ChatAnswer {
  const message = parseExactObject(body.toString('utf8'));
  if (message === undefined || !Array.isArray(message.content)) throw noMessage(message);
  const blocks = asArray(message.content).flatMap<JsonObject>((value) => asObject(value) ?? []);
  const calls = new CallReading(request);
  const parts = blocks.map(decodeBlock).map((part) => calls.read(part));
  const usage = decodeAnthropicUsage(message.usage);
  const tier = decodeTier(asObject(message.usage)?.service_tier);
  const extras = messageExtras(message, asObject(message.usage) ?? {});
  return {
    id: asText(message.id) ?? '',
    model: asText(message.model) ?? '',
    choices: [
      {
        index: 0,
        parts,
        finish: finishOf(asText(message.stop_reason) ?? '', asText(message.stop_sequence), calls.hasCall),
      },
    ],
    ...(usage === undefined ? {} : { usage }),
    ...(tier === undefined ? {} : { serviceTier: tier }),
    ...(extras === undefined ? {} : { extras: { [dialectName]: extras } }),
  };
}

function noMessage(message: JsonObject | undefined): GatewayError {
  const said = message === undefined ? undefined : anthropicErrorMessage(message);
  const why = said === undefined ? 'it is no message with content' : `it reports an error: ${said}`;
  return new GatewayError('upstream_invalid', `The provider's answer cannot be read: ${why}.`, {
    source: 'provider',
  });
}

/** Members of a message and of its usage that only this wire knows; undefined when there are none. */
export function messageExtras(message: JsonObject, usage: JsonObject): JsonObject | undefined {
  const extras = unknownMembers(message, messageMembers);
  const details = unknownMembers(usage, usageMembers);
  if (Object.keys(details).length > 0) extras.usage = details;
  return Object.keys(extras).length === 0 ? undefined : extras;
}

function unknownMembers(object: JsonObject, known: ReadonlySet<string>): JsonObject {
  const rest: JsonObject = {};
  for (const [name, value] of Object.entries(object)) {
    if (!known.has(name) && value !== null && name !== '__proto__') rest[name] = value;
  }
  return rest;
}

/** Turns the calls by which an encoded request was made to work back into what was asked for. One per answer. */
export class CallReading {
  private readonly answerName: string | undefined;
  private readonly customNames: ReadonlySet<string>;
  /** A call that the client must answer was read. */
  hasCall = false;

  constructor(request: ChatRequest) {
    this.answerName = answerToolName(request);
    this.customNames = new Set(request.tools.flatMap((tool) => (tool.type === 'custom' ? [tool.name] : [])));
  }

  /** What a call of this name stands for. */
  kindOf(name: string): 'answer' | 'custom' | 'function' {
    if (name === this.answerName) return 'answer';
    return this.customNames.has(name) ? 'custom' : 'function';
  }

  /** The part as the client expects it. */
  read(part: ChatPart): ChatPart {
    if (part.type !== 'tool-call') return part;
    const kind = this.kindOf(part.name);
    if (kind === 'answer') return { type: 'text', text: part.arguments };
    this.hasCall = true;
    return kind === 'custom' ? { ...part, kind, arguments: freeText(part.arguments) } : part;
  }
}

/** The free text of a custom tool's call, out of the object in which it came. */
export function freeText(text: string): string {
  const input = parseExactObject(text)?.input;
  return typeof input === 'string' ? input : text;
}
