import { fields, type JsonObject } from '../../request.ts';
import { answerTexts, invalid } from '../../answer.ts';
import { isJsonObject } from '../../../../core/base/json.ts';

const maxTools = 128;

/** A function that the model may call. */
export interface OfferedTool {
  readonly name: string;
  /** JSON Schema of its arguments. */
  readonly parameters: unknown;
}

/** Offered functions, and those that the request calls. */
interface ToolPlan {
  readonly offered: readonly OfferedTool[];
  /** Functions to call; empty for a text answer. */
  readonly called: readonly OfferedTool[];
  /** `tool_choice: none` or no tools: not even the model's name can cause a call. */
  readonly forbidden: boolean;
  readonly parallel: boolean;
  /** The deprecated `functions` were used: the answer has `function_call`. */
  readonly legacy: boolean;
}

/** Reads tools and tool choice. `said` is the user's text; a function named in it is called. */
function readTools(body: JsonObject, said: string): ToolPlan {
  const legacy = fields.member(body, 'tools') === undefined && fields.member(body, 'functions') !== undefined;
  const offered = legacy ? readFunctions(body) : readToolList(body);
  const parallel = !legacy && fields.optionalBoolean(body, 'parallel_tool_calls', true);
  const choice = readChoice(body, legacy, offered);
  const plan = { offered, parallel, legacy, forbidden: choice === 'none' || offered.length === 0 };
  if (plan.forbidden) return { ...plan, called: [] };
  if (typeof choice !== 'string') return { ...plan, called: [choice] };
  const words = asWords(said);
  const named = offered.filter((tool) => words.includes(asWords(tool.name)));
  const called = choice === 'required' && named.length === 0 ? offered.slice(0, 1) : named;
  return { ...plan, called: parallel ? called : called.slice(0, 1) };
}

function readToolList(body: JsonObject): OfferedTool[] {
  const tools = readList(body, 'tools');
  return tools.flatMap((tool, index) => {
    if (!isJsonObject(tool)) throw fields.wrongType(`tools[${index}]`, 'an object', tool);
    const type = fields.member(tool, 'type');
    if (type === undefined) throw fields.missing(`tools[${index}].type`);
    // Other kinds of tools (`custom` …) are accepted and never called.
    if (type !== 'function') return [];
    return [readFunction(fields.member(tool, 'function'), `tools[${index}].function`)];
  });
}

function readFunctions(body: JsonObject): OfferedTool[] {
  return readList(body, 'functions').map((value, index) => readFunction(value, `functions[${index}]`));
}

function readList(body: JsonObject, name: string): readonly unknown[] {
  const list = fields.member(body, name);
  if (list === undefined) return [];
  if (!Array.isArray(list)) throw fields.wrongType(name, 'an array', list);
  if (list.length > maxTools) {
    throw invalid(name, `Invalid '${name}': at most ${maxTools} items, but got ${list.length} instead.`);
  }
  return list;
}

function readFunction(value: unknown, place: string): OfferedTool {
  if (!isJsonObject(value)) throw fields.missing(place);
  const name = fields.member(value, 'name');
  if (name === undefined) throw fields.missing(`${place}.name`);
  if (typeof name !== 'string' || !/^[a-zA-Z0-9_.-]{1,64}$/.test(name)) {
    throw invalid(`${place}.name`, `Invalid '${place}.name': 1 to 64 letters, digits, '_', '-' or '.'.`);
  }
  return { name, parameters: fields.member(value, 'parameters') ?? { type: 'object', properties: {} } };
}

function readChoice(
  body: JsonObject,
  legacy: boolean,
  offered: readonly OfferedTool[],
): 'none' | 'auto' | 'required' | OfferedTool {
  const param = legacy ? 'function_call' : 'tool_choice';
  const choice = fields.member(body, param);
  if (choice === undefined) return 'auto';
  if (choice === 'none' || choice === 'auto') return choice;
  if (choice === 'required' && !legacy) {
    if (offered.length === 0) throw invalid(param, `'${param}' needs 'tools'.`);
    return choice;
  }
  const named = isJsonObject(choice) ? nameIn(choice, legacy) : undefined;
  if (named === undefined) {
    throw invalid(param, `Invalid '${param}': expected none, auto, required or an object with a function.`);
  }
  const tool = offered.find((candidate) => candidate.name === named);
  if (tool === undefined) throw invalid(param, `'${param}' names a function that is not offered.`);
  return tool;
}

function nameIn(choice: JsonObject, legacy: boolean): string | undefined {
  const holder = legacy ? choice : fields.member(choice, 'function');
  const name = isJsonObject(holder) ? fields.member(holder, 'name') : undefined;
  return typeof name === 'string' ? name : undefined;
}

/** A text as words between single spaces, so that `get_weather` and `get weather` are the same. */
function asWords(text: string): string {
  return ` ${text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, ' ')
    .trim()} `;
}

const roles = ['system', 'developer', 'user', 'assistant', 'tool', 'function'];

/** Required format of the answer. */
type AnswerFormat =
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
  /** Undefined when no log probabilities are requested. */
  readonly topLogprobs: number | undefined;
  readonly tools: ToolPlan;
  readonly format: AnswerFormat;
}

/** Reads a chat body; throws a 400 that names the invalid parameter. */
export function readChatRequest(body: JsonObject): ChatRequest {
  const model = fields.requiredModel(body);
  const messages = readMessages(body);
  const stream = fields.optionalBoolean(body, 'stream', false);
  const last = messages.at(-1);
  const fromTool = last !== undefined && (last['role'] === 'tool' || last['role'] === 'function');
  const speaking = fromTool ? last : messages.findLast((message) => message['role'] === 'user');
  const said = fields.textOfContent(speaking?.['content']);
  const tools = readTools(body, fromTool ? '' : said);
  return {
    model,
    said,
    saidBy: fromTool ? 'tool' : speaking === undefined ? 'none' : 'user',
    promptTokens: promptTokens(messages) + (tools.offered.length === 0 ? 0 : toolTokens(body)),
    n: fields.optionalInteger(body, 'n', 1, 128) ?? 1,
    stop: fields.textList(body, 'stop', 4),
    maxTokens:
      fields.optionalInteger(body, 'max_completion_tokens', 1, Number.MAX_SAFE_INTEGER) ??
      fields.optionalInteger(body, 'max_tokens', 1, Number.MAX_SAFE_INTEGER),
    stream,
    includeUsage: readIncludeUsage(body, stream),
    topLogprobs: readTopLogprobs(body),
    tools,
    format: readFormat(body),
  };
}

function readMessages(body: JsonObject): JsonObject[] {
  const messages = fields.member(body, 'messages');
  if (messages === undefined) throw fields.missing('messages');
  if (!Array.isArray(messages)) throw fields.wrongType('messages', 'an array', messages);
  if (messages.length === 0) {
    throw invalid('messages', "Invalid 'messages': empty array. Expected at least 1 message.", 'empty_array');
  }
  return messages.map((message: unknown, index) => {
    if (!isJsonObject(message)) throw fields.wrongType(`messages[${index}]`, 'an object', message);
    const role = fields.member(message, 'role');
    if (typeof role !== 'string' || !roles.includes(role)) {
      throw invalid(
        `messages[${index}].role`,
        `Invalid 'messages[${index}].role': expected ${roles.join(', ')}.`,
      );
    }
    return message;
  });
}

/** A message costs four tokens in addition to its text. */
function promptTokens(messages: readonly JsonObject[]): number {
  let tokens = 3;
  for (const message of messages)
    tokens += 4 + answerTexts.countTokens(fields.textOfContent(message['content']));
  return tokens;
}

function toolTokens(body: JsonObject): number {
  return answerTexts.countTokens(JSON.stringify(body['tools'] ?? body['functions']));
}

function readIncludeUsage(body: JsonObject, stream: boolean): boolean {
  const options = fields.member(body, 'stream_options');
  if (options === undefined) return false;
  if (!isJsonObject(options)) throw fields.wrongType('stream_options', 'an object', options);
  if (!stream) {
    throw invalid(
      'stream_options',
      "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
    );
  }
  return fields.optionalBoolean(options, 'include_usage', false);
}

function readTopLogprobs(body: JsonObject): number | undefined {
  const wanted = fields.optionalBoolean(body, 'logprobs', false);
  const top = fields.optionalInteger(body, 'top_logprobs', 0, 20);
  if (top !== undefined && !wanted) {
    throw invalid('top_logprobs', "The 'top_logprobs' parameter is only allowed when 'logprobs' is enabled.");
  }
  return wanted ? (top ?? 0) : undefined;
}

function readFormat(body: JsonObject): AnswerFormat {
  const format = fields.member(body, 'response_format');
  if (format === undefined) return { type: 'text' };
  if (!isJsonObject(format)) throw fields.wrongType('response_format', 'an object', format);
  const type = fields.member(format, 'type');
  if (type === 'text' || type === 'json_object') return { type };
  if (type !== 'json_schema') {
    throw invalid(
      'response_format.type',
      "Invalid 'response_format.type': expected text, json_object or json_schema.",
    );
  }
  const described = fields.member(format, 'json_schema');
  if (!isJsonObject(described)) throw fields.missing('response_format.json_schema');
  if (typeof fields.member(described, 'name') !== 'string')
    throw fields.missing('response_format.json_schema.name');
  return { type, schema: fields.member(described, 'schema') ?? {} };
}
