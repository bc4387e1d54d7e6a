import type {
  ChatRequest,
  ToolChoice,
  ToolDefinition,
} from '../../../core/dialects/canonical/chat-request.ts';
import type { JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import { reportForeignExtras, type EncodeReport } from '../../../core/dialects/canonical/encode-report.ts';
import { asObject } from '../json-reading.ts';
import { toGeminiSchema } from './gemini-schema.ts';

/** Tools that Google runs itself, by what they are for. */
const ownTools: Readonly<Partial<Record<string, string>>> = {
  'web-search': 'googleSearch',
  'web-fetch': 'urlContext',
  'code-execution': 'codeExecution',
};

/** `tools` and `toolConfig`. */
export interface EncodedTools {
  readonly tools: readonly JsonObject[];
  readonly functionCallingConfig: JsonObject | undefined;
}

/** The request's tools and what it says about their use. */
export function encodeTools(request: ChatRequest, report: EncodeReport): EncodedTools {
  const functionDeclarations: JsonObject[] = [];
  const others: JsonObject[] = [];
  request.tools.forEach((tool, i) => {
    const place = `tools[${i}]`;
    if (tool.type === 'provider') others.push(...providerTool(tool, place, report));
    else functionDeclarations.push(declaration(tool, place, report));
  });
  const tools = functionDeclarations.length > 0 ? [{ functionDeclarations }, ...others] : others;
  if (functionDeclarations.length === 0) {
    const choice = request.toolChoice?.type;
    if (choice !== undefined && choice !== 'auto' && choice !== 'none') report.drop('tool_choice');
    return { tools, functionCallingConfig: undefined };
  }
  const strict = request.tools.some((tool) => tool.type === 'function' && tool.strict === true);
  return { tools, functionCallingConfig: callingConfig(request.toolChoice, strict) };
}

function declaration(
  tool: Exclude<ToolDefinition, { type: 'provider' }>,
  place: string,
  report: EncodeReport,
): JsonObject {
  const declared: JsonObject = { name: tool.name };
  if (tool.description !== undefined) declared.description = tool.description;
  if (tool.cache !== undefined) report.drop(`${place}.cache_control`);
  if (tool.type === 'custom') {
    report.emulate(place);
    if (tool.format !== undefined) report.drop(`${place}.custom.format`);
    declared.parameters = {
      type: 'object',
      properties: { input: { type: 'string', description: 'The input of the tool.' } },
      required: ['input'],
    };
    return declared;
  }
  reportForeignExtras(tool.extras, ['google-gemini', 'google-vertex'], report, `${place}.`);
  if (tool.strict === true) report.emulate(`${place}.function.strict`);
  const parameters =
    tool.parameters === undefined
      ? undefined
      : toGeminiSchema(tool.parameters, `${place}.function.parameters`, report);
  // An object without members is refused; no parameters at all mean the same.
  if (parameters !== undefined && !isEmptyObject(parameters)) declared.parameters = parameters;
  return Object.assign(declared, tool.extras?.['google-gemini']);
}

function isEmptyObject({ type, properties, anyOf }: JsonObject): boolean {
  if (anyOf !== undefined || (type !== undefined && type !== 'object')) return false;
  return Object.keys(asObject(properties) ?? {}).length === 0;
}

function providerTool(
  tool: Extract<ToolDefinition, { type: 'provider' }>,
  place: string,
  report: EncodeReport,
): JsonObject[] {
  if (tool.dialect === 'google-gemini' || tool.dialect === 'google-vertex') return [tool.value];
  const name = ownTools[tool.purpose];
  if (name === undefined) {
    report.drop(place);
    return [];
  }
  report.emulate(place);
  return [{ [name]: {} }];
}

/** `VALIDATED` lets the model choose and holds it to the declared parameters, which is what `strict` asks for. */
function callingConfig(choice: ToolChoice | undefined, strict: boolean): JsonObject | undefined {
  switch (choice?.type) {
    case undefined:
      return strict ? { mode: 'VALIDATED' } : undefined;
    case 'auto':
      return { mode: strict ? 'VALIDATED' : 'AUTO' };
    case 'none':
      return { mode: 'NONE' };
    case 'required':
      return { mode: 'ANY' };
    case 'tool':
      return { mode: 'ANY', allowedFunctionNames: [choice.name] };
    case 'allowed':
      // Names are taken with `ANY` and `VALIDATED` alone.
      return {
        mode: choice.mode === 'required' ? 'ANY' : 'VALIDATED',
        allowedFunctionNames: [...choice.names],
      };
  }
}
