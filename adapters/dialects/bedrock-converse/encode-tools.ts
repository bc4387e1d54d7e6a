import type {
  ChatRequest,
  ToolChoice,
  ToolDefinition,
} from '../../../core/dialects/canonical/chat-request.ts';
import { reportForeignExtras } from '../../../core/dialects/canonical/chat-codec.ts';
import { bedrockModel } from './bedrock-model.ts';
import { addCachePoint, type ContentContext } from './encode-messages.ts';
import type { JsonObject } from '../json-reading.ts';

/** The tools of a request: those of the API, and those that only the model's vendor has. */
interface EncodedTools {
  readonly toolConfig?: JsonObject;
  /** Members of `additionalModelRequestFields`. */
  readonly fields: JsonObject;
}

/** Circumstances besides the request that the tool choice depends on. */
export interface ToolSituation {
  /** Tools called in the history; undefined when it holds no call and no result. */
  readonly called: readonly string[] | undefined;
  /** The tool whose input is the answer, as a definition with its name. */
  readonly answer?: { readonly name: string; readonly definition: JsonObject };
  /** A Claude model that thinks cannot be forced to call a tool. */
  readonly thinking: boolean;
}

/**
 * `toolConfig` and the vendor's members beside it. The API requires tool definitions when the history holds a call or a
 * result: a request without tools gets definitions of the called names with an open schema.
 */
export function encodeTools(
  request: ChatRequest,
  situation: ToolSituation,
  context: ContentContext,
): EncodedTools {
  const { called, answer } = situation;
  const fields: JsonObject = {};
  const forbidden = request.toolChoice?.type === 'none';
  const tools: JsonObject[] = [];
  if (!forbidden || called !== undefined) addDefinitions(tools, fields, request, context);
  const bare = tools.length === 0 && fields.tools === undefined && answer === undefined;
  const invented = bare && called !== undefined;
  if (invented) addPlaceholders(tools, called, context);
  if (answer !== undefined) tools.push(answer.definition);
  if (tools.length === 0) return { fields };
  const toolConfig: JsonObject = { tools };
  const wish = choiceOf(request, situation, tools.length);
  if (wish.type === 'none' || invented) forbid(fields, forbidden, context);
  else choose(toolConfig, fields, wish, { request, situation, context });
  return { toolConfig, fields };
}

function addDefinitions(
  tools: JsonObject[],
  fields: JsonObject,
  request: ChatRequest,
  context: ContentContext,
): void {
  const { toolChoice } = request;
  const allowed = toolChoice?.type === 'allowed' ? new Set(toolChoice.names) : undefined;
  if (allowed !== undefined) context.report.emulate('tool_choice');
  request.tools.forEach((tool, at) => {
    const place = `tools[${at}]`;
    if (tool.type === 'provider') return addProviderTool(tools, fields, tool, { place, context });
    if (allowed !== undefined && !allowed.has(tool.name)) return;
    tools.push({ toolSpec: toolSpec(tool, place, context) });
    if (tool.cache === undefined) return;
    // Nova caches instructions and messages, but not tools.
    if (context.model.vendor === 'amazon') context.report.drop(`${place}.cache_control`);
    else addCachePoint(tools, tool.cache, place, context);
  });
}

function toolSpec(
  tool: Exclude<ToolDefinition, { type: 'provider' }>,
  place: string,
  { model, report }: ContentContext,
): JsonObject {
  const spec: JsonObject = { name: tool.name };
  if (tool.description !== undefined && tool.description.trim() !== '') spec.description = tool.description;
  if (tool.type === 'custom') {
    report.emulate(place);
    if (tool.format !== undefined) report.drop(`${place}.custom.format`);
    spec.inputSchema = {
      json: { type: 'object', properties: { input: { type: 'string' } }, required: ['input'] },
    };
    return spec;
  }
  reportForeignExtras(tool.extras, [], report, `${place}.`);
  const parameters = tool.parameters ?? { properties: {} };
  spec.inputSchema = { json: 'type' in parameters ? parameters : { type: 'object', ...parameters } };
  if (tool.strict === true) {
    if (bedrockModel.hasStructuredOutput(model)) spec.strict = true;
    else report.drop(`${place}.function.strict`);
  }
  return spec;
}

/** Tools that Claude calls and the client runs; Bedrock requires a dated beta for them. */
const claudeTool = /^(computer|bash|text_editor)_(\d{4})(\d\d)(\d\d)$/;

function addProviderTool(
  tools: JsonObject[],
  fields: JsonObject,
  tool: Extract<ToolDefinition, { type: 'provider' }>,
  { place, context }: { place: string; context: ContentContext },
): void {
  const { model, report } = context;
  if (tool.dialect === 'bedrock-converse') {
    tools.push(tool.value);
    return;
  }
  const type = typeof tool.value.type === 'string' ? tool.value.type : '';
  const match = model.vendor === 'anthropic' ? claudeTool.exec(type) : null;
  if (match !== null) {
    fields.tools = [...((fields.tools as JsonObject[] | undefined) ?? []), tool.value];
    if (match[1] === 'computer') fields.anthropic_beta = [`computer-use-${match[2]}-${match[3]}-${match[4]}`];
    return;
  }
  const system = novaTools[tool.purpose];
  if (system === undefined || !(bedrockModel.isNova2(model) || model.name.startsWith('nova-premier')))
    return report.drop(place);
  report.emulate(place);
  tools.push({ systemTool: { name: system } });
}

const novaTools: Readonly<Record<string, string>> = {
  'web-search': 'nova_grounding',
  'code-execution': 'nova_code_interpreter',
};

function addPlaceholders(tools: JsonObject[], called: readonly string[], { report }: ContentContext): void {
  report.emulate('tools');
  for (const name of called) tools.push({ toolSpec: { name, inputSchema: { json: { type: 'object' } } } });
}

function choiceOf(request: ChatRequest, { answer }: ToolSituation, count: number): ToolChoice {
  const given = request.toolChoice ?? { type: 'auto' };
  if (answer === undefined || given.type === 'tool') return given;
  // The answer itself is a call: some tool must be called, and only this one when no other is allowed.
  return count === 1 || given.type === 'none'
    ? { type: 'tool', name: answer.name, kind: 'function' }
    : { type: 'required' };
}

/** Forbids tool calls, although the API requires the definitions. */
function forbid(fields: JsonObject, asked: boolean, { model, report }: ContentContext): void {
  if (model.vendor === 'anthropic') fields.tool_choice = { type: 'none' };
  else if (asked) report.drop('tool_choice');
}

interface Choosing {
  readonly request: ChatRequest;
  readonly situation: ToolSituation;
  readonly context: ContentContext;
}

function choose(
  toolConfig: JsonObject,
  fields: JsonObject,
  wish: ToolChoice,
  { request, situation, context }: Choosing,
): void {
  const { model, report } = context;
  const strength = situation.thinking ? 'auto' : bedrockModel.forcedChoice(model);
  const type = wish.type === 'allowed' ? wish.mode : wish.type;
  let choice: 'auto' | 'any' | 'tool' = type === 'tool' ? 'tool' : type === 'required' ? 'any' : 'auto';
  if (choice !== 'auto' && strength === 'auto') {
    if (situation.answer === undefined) report.drop('tool_choice');
    choice = 'auto';
  }
  if (choice === 'tool' && strength === 'any') {
    if (situation.answer === undefined) report.emulate('tool_choice');
    keepOnlyChosen(toolConfig, wish);
    choice = 'any';
  }
  const named = choice === 'tool' && wish.type === 'tool' ? { name: wish.name } : {};
  if (request.parallelToolCalls === false && model.vendor === 'anthropic') {
    // The vendor's own choice, which excludes that of the API.
    fields.tool_choice = { type: choice, ...named, disable_parallel_tool_use: true };
    return;
  }
  if (request.parallelToolCalls === false) report.drop('parallel_tool_calls');
  if (choice !== 'auto') toolConfig.toolChoice = { [choice]: named };
}

/** Removes all definitions except the one that must be called. */
function keepOnlyChosen(toolConfig: JsonObject, wish: ToolChoice): void {
  if (wish.type !== 'tool') return;
  const tools = toolConfig.tools as { toolSpec?: { name?: unknown } }[];
  toolConfig.tools = tools.filter(({ toolSpec: spec }) => spec?.name === wish.name);
}
