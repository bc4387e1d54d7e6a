import type { EncodeReport } from '../../../core/dialects/canonical/encode-report.ts';
import { reportForeignExtras } from '../../../core/dialects/canonical/encode-report.ts';
import type {
  ChatRequest,
  ToolChoice,
  ToolDefinition,
} from '../../../core/dialects/canonical/chat-request.ts';
import type { DialectName } from '../../../core/dialects/endpoint.ts';
import { asArray, asObject, asText, type JsonObject } from '../json-reading.ts';
import type { ModelAbilities } from './model-abilities.ts';
import { addCommon, dialectName } from './own-dialect.ts';

/** What the encoding of tools depends on. */
export interface ToolSetting {
  readonly can: ModelAbilities;
  /** The model thinks: it cannot be forced to call a tool. */
  readonly thinks: boolean;
  readonly own: readonly DialectName[];
}

/** The tools of a request and how they may be used. */
export interface EncodedTools {
  readonly tools: readonly JsonObject[];
  readonly choice?: JsonObject;
}

/** Tools in the wire's form. `answerTool` is the one in whose input a structured answer is to come. */
export function encodeTools(
  request: ChatRequest,
  setting: ToolSetting,
  report: EncodeReport,
  answerTool?: JsonObject,
): EncodedTools {
  const { toolChoice } = request;
  const allowed = toolChoice?.type === 'allowed' ? new Set(toolChoice.names) : undefined;
  const tools = request.tools.flatMap<JsonObject>((tool, i) => {
    if (allowed !== undefined && 'name' in tool && !allowed.has(tool.name)) return [];
    return encodeTool(tool, `tools[${i}]`, setting, report) ?? [];
  });
  if (answerTool !== undefined) tools.push(answerTool);
  if (tools.length === 0) {
    if (toolChoice !== undefined && toolChoice.type !== 'auto' && toolChoice.type !== 'none') {
      report.drop('tool_choice');
    }
    return { tools };
  }
  const wanted =
    answerTool === undefined ? wantedChoice(toolChoice, report) : forcedAnswer(tools, answerTool, toolChoice);
  const choice = allowedChoice(wanted, setting, report, answerTool === undefined);
  const isSingle = request.parallelToolCalls === false || (answerTool !== undefined && tools.length === 1);
  if (choice?.type !== 'none' && (isSingle || (request.parallelToolCalls === true && choice !== undefined))) {
    return { tools, choice: { type: 'auto', ...choice, disable_parallel_tool_use: isSingle } };
  }
  return choice === undefined ? { tools } : { tools, choice };
}

function encodeTool(
  tool: ToolDefinition,
  place: string,
  { can, own }: ToolSetting,
  report: EncodeReport,
): JsonObject | undefined {
  if (tool.type === 'provider') return encodeProviderTool(tool, place, report);
  const encoded: JsonObject = { name: tool.name };
  if (tool.description !== undefined) encoded.description = tool.description;
  if (tool.type === 'custom') {
    report.emulate(place);
    if (tool.format !== undefined) report.drop(`${place}.custom.format`);
    encoded.input_schema = freeTextSchema;
    return addCommon(encoded, { cache: tool.cache });
  }
  reportForeignExtras(tool.extras, own, report, `${place}.`);
  encoded.input_schema =
    tool.parameters === undefined ? { type: 'object', properties: {} } : objectSchema(tool.parameters);
  if (tool.strict !== undefined) {
    if (can.structuredOutput) encoded.strict = tool.strict;
    else if (tool.strict) report.drop(`${place}.function.strict`);
  }
  return addCommon(encoded, tool);
}

const freeTextSchema: JsonObject = {
  type: 'object',
  properties: { input: { type: 'string' } },
  required: ['input'],
  additionalProperties: false,
};

/** The wire wants the root to say that it is an object. */
function objectSchema(schema: JsonObject): JsonObject {
  return schema.type === undefined ? { type: 'object', ...schema } : schema;
}

function encodeProviderTool(
  tool: Extract<ToolDefinition, { type: 'provider' }>,
  place: string,
  report: EncodeReport,
): JsonObject | undefined {
  if (tool.dialect === dialectName) return tool.value;
  switch (tool.purpose) {
    case 'web-search':
      report.emulate(place);
      return { type: 'web_search_20250305', name: 'web_search', ...searchLimits(tool.value) };
    case 'web-fetch':
      report.emulate(place);
      return { type: 'web_fetch_20250910', name: 'web_fetch' };
    case 'code-execution':
      report.emulate(place);
      return { type: 'code_execution_20250825', name: 'code_execution' };
    default:
      report.drop(place);
      return undefined;
  }
}

/** Where the searcher is and which sites count, as OpenAI's two wires say it. */
function searchLimits(value: JsonObject): JsonObject {
  const limits: JsonObject = {};
  const location = asObject(value.user_location);
  const place = asObject(location?.approximate) ?? location;
  if (place !== undefined) {
    const said: JsonObject = { type: 'approximate' };
    for (const member of ['city', 'region', 'country', 'timezone']) {
      if (asText(place[member]) !== undefined) said[member] = place[member];
    }
    limits.user_location = said;
  }
  const domains = asArray(asObject(value.filters)?.allowed_domains);
  if (domains.length > 0) limits.allowed_domains = domains;
  return limits;
}

function wantedChoice(choice: ToolChoice | undefined, report: EncodeReport): JsonObject | undefined {
  if (choice === undefined) return undefined;
  switch (choice.type) {
    case 'tool':
      return { type: 'tool', name: choice.name };
    case 'allowed':
      report.emulate('tool_choice');
      return { type: choice.mode === 'required' ? 'any' : 'auto' };
    case 'required':
      return { type: 'any' };
    default:
      return { type: choice.type };
  }
}

/** Other tools may come before the answer, unless none may be called. */
function forcedAnswer(
  tools: readonly JsonObject[],
  answerTool: JsonObject,
  asked: ToolChoice | undefined,
): JsonObject {
  return tools.length === 1 || asked?.type === 'none'
    ? { type: 'tool', name: answerTool.name }
    : { type: 'any' };
}

/** A model that thinks, and some that always do, cannot be forced to call. */
function allowedChoice(
  choice: JsonObject | undefined,
  { can, thinks }: ToolSetting,
  report: EncodeReport,
  isOwnWish: boolean,
): JsonObject | undefined {
  const isForced = choice?.type === 'any' || choice?.type === 'tool';
  if (!isForced || (can.forcedTool && !thinks)) return choice;
  report.emulate(isOwnWish ? 'tool_choice' : 'response_format');
  return { type: 'auto' };
}
