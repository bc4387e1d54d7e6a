import { countTokens } from '../../answer-text.ts';
import {
  isObject,
  member,
  missing,
  optionalBoolean,
  optionalInteger,
  requiredModel,
  textList,
  textOfContent,
  wrongType,
  type JsonObject,
} from '../../json-value.ts';
import { invalid } from '../../problem.ts';
import { readTools, type ToolPlan } from './tools.ts';

const roles = ['system', 'developer', 'user', 'assistant', 'tool', 'function'];

/** What the answer must be. */
export type AnswerFormat =
  { readonly type: 'text' | 'json_object' } | { readonly type: 'json_schema'; readonly schema: unknown };

/** A checked chat request. */
export interface ChatRequest {
  readonly model: string;
  readonly said: string;
  readonly saidBy: 'user' | 'tool' | 'none';
  readonly promptTokens: number;
  readonly n: number;
  readonly stop: readonly string[];
  readonly maxTokens: number | undefined;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  /** Undefined when no log probabilities are asked for. */
  readonly topLogprobs: number | undefined;
  readonly tools: ToolPlan;
  readonly format: AnswerFormat;
}

/** Reads a chat body; throws a 400 that names the parameter at fault. */
export function readChatRequest(body: JsonObject): ChatRequest {
  const model = requiredModel(body);
  const messages = readMessages(body);
  const stream = optionalBoolean(body, 'stream', false);
  const last = messages.at(-1);
  const fromTool = last !== undefined && (last['role'] === 'tool' || last['role'] === 'function');
  const speaking = fromTool ? last : messages.findLast((message) => message['role'] === 'user');
  const said = textOfContent(speaking?.['content']);
  const tools = readTools(body, fromTool ? '' : said);
  return {
    model,
    said,
    saidBy: fromTool ? 'tool' : speaking === undefined ? 'none' : 'user',
    promptTokens: promptTokens(messages) + (tools.offered.length === 0 ? 0 : toolTokens(body)),
    n: optionalInteger(body, 'n', 1, 128) ?? 1,
    stop: textList(body, 'stop', 4),
    maxTokens:
      optionalInteger(body, 'max_completion_tokens', 1, Number.MAX_SAFE_INTEGER) ??
      optionalInteger(body, 'max_tokens', 1, Number.MAX_SAFE_INTEGER),
    stream,
    includeUsage: readIncludeUsage(body, stream),
    topLogprobs: readTopLogprobs(body),
    tools,
    format: readFormat(body),
  };
}

function readMessages(body: JsonObject): JsonObject[] {
  const messages = member(body, 'messages');
  if (messages === undefined) throw missing('messages');
  if (!Array.isArray(messages)) throw wrongType('messages', 'an array', messages);
  if (messages.length === 0) {
    throw invalid('messages', "Invalid 'messages': empty array. Expected at least 1 message.", 'empty_array');
  }
  return messages.map((message: unknown, index) => {
    if (!isObject(message)) throw wrongType(`messages[${index}]`, 'an object', message);
    const role = member(message, 'role');
    if (typeof role !== 'string' || !roles.includes(role)) {
      throw invalid(
        `messages[${index}].role`,
        `Invalid 'messages[${index}].role': expected ${roles.join(', ')}.`,
      );
    }
    return message;
  });
}

/** A message costs four tokens beside its text. */
function promptTokens(messages: readonly JsonObject[]): number {
  let tokens = 3;
  for (const message of messages) tokens += 4 + countTokens(textOfContent(message['content']));
  return tokens;
}

function toolTokens(body: JsonObject): number {
  return countTokens(JSON.stringify(body['tools'] ?? body['functions']));
}

function readIncludeUsage(body: JsonObject, stream: boolean): boolean {
  const options = member(body, 'stream_options');
  if (options === undefined) return false;
  if (!isObject(options)) throw wrongType('stream_options', 'an object', options);
  if (!stream) {
    throw invalid(
      'stream_options',
      "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
    );
  }
  return optionalBoolean(options, 'include_usage', false);
}

function readTopLogprobs(body: JsonObject): number | undefined {
  const wanted = optionalBoolean(body, 'logprobs', false);
  const top = optionalInteger(body, 'top_logprobs', 0, 20);
  if (top !== undefined && !wanted) {
    throw invalid('top_logprobs', "The 'top_logprobs' parameter is only allowed when 'logprobs' is enabled.");
  }
  return wanted ? (top ?? 0) : undefined;
}

function readFormat(body: JsonObject): AnswerFormat {
  const format = member(body, 'response_format');
  if (format === undefined) return { type: 'text' };
  if (!isObject(format)) throw wrongType('response_format', 'an object', format);
  const type = member(format, 'type');
  if (type === 'text' || type === 'json_object') return { type };
  if (type !== 'json_schema') {
    throw invalid(
      'response_format.type',
      "Invalid 'response_format.type': expected text, json_object or json_schema.",
    );
  }
  const described = member(format, 'json_schema');
  if (!isObject(described)) throw missing('response_format.json_schema');
  if (typeof member(described, 'name') !== 'string') throw missing('response_format.json_schema.name');
  return { type, schema: member(described, 'schema') ?? {} };
}
