import type { DecodeContext } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import { answerToolName } from '../anthropic-messages/answer-tool.ts';
import { stringifyExact } from '../exact-json.ts';
import { asObject, asText, type JsonObject } from '../json-reading.ts';

/** What a `toolUse` block of an answer is. */
export type ToolUseKind =
  /** The client must answer it. */
  | 'function'
  | 'custom'
  /** Its input is the answer. */
  | 'answer'
  /** Run by the provider. */
  | 'provider';

/** Tells the tools of one request apart in its answer. */
export class AnswerTools {
  /** The tool whose input is the answer, when the request wants a schema. */
  readonly answerName: string | undefined;
  readonly #custom: ReadonlySet<string>;

  constructor(request: ChatRequest) {
    this.answerName = answerToolName(request);
    this.#custom = new Set(request.tools.flatMap((tool) => (tool.type === 'custom' ? [tool.name] : [])));
  }

  kindOf(toolUse: JsonObject, name: string): ToolUseKind {
    if (toolUse.type === 'server_tool_use') return 'provider';
    if (name === this.answerName) return 'answer';
    return this.#custom.has(name) ? 'custom' : 'function';
  }
}

/** The name that was called. Models of OpenAI let a mark of their own format slip into it (`json<|channel|>commentary`). */
export function toolUseName(toolUse: JsonObject): string {
  return (asText(toolUse.name) ?? '').replace(/<\|.*$/s, '');
}

/** The id of the call, or a fresh one. */
export function toolUseIdOf(toolUse: JsonObject, { newId }: DecodeContext): string {
  return asText(toolUse.toolUseId) ?? newId('call_');
}

/** The input of a call as JSON text; of a custom tool, its free text. */
export function inputText(input: unknown, kind: ToolUseKind): string {
  if (kind === 'custom') {
    const text = asObject(input)?.input;
    if (typeof text === 'string') return text;
  }
  if (typeof input === 'string') return input;
  return input === undefined || input === null ? '{}' : stringifyExact(input as JsonObject);
}
