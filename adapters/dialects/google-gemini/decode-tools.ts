import type {
  ChatRequest,
  ProviderToolPurpose,
  ToolChoice,
  ToolDefinition,
} from '../../../core/dialects/canonical/chat-request.ts';
import type { JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import { asArray, asObject, asText } from '../json-reading.ts';
import { toJsonSchema } from './json-schema.ts';
import { knownMembers, member, memberObject, otherMembers } from './member.ts';

/** What Google's own tools are for, by the member that names them. */
const purposes: Readonly<Record<string, ProviderToolPurpose>> = {
  googleSearch: 'web-search',
  googleSearchRetrieval: 'web-search',
  enterpriseWebSearch: 'web-search',
  codeExecution: 'code-execution',
  urlContext: 'web-fetch',
  fileSearch: 'file-search',
  retrieval: 'file-search',
  googleMaps: 'other',
  computerUse: 'computer',
  mcpServers: 'mcp',
};

const declarationLists = knownMembers(['functionDeclarations']);
const callingConfigs = knownMembers(['functionCallingConfig']);
const declarationMembers = knownMembers(['name', 'description', 'parameters', 'parametersJsonSchema']);

/** The tools of a request. `strict` is set when the request holds the model to their parameters (`VALIDATED`). */
export function decodeTools(body: JsonObject): ToolDefinition[] {
  const list = Array.isArray(body.tools) ? asArray(body.tools) : body.tools === undefined ? [] : [body.tools];
  const strict = callingMode(body) === 'VALIDATED';
  return list.flatMap((value) => {
    const tool = asObject(value);
    if (tool === undefined) return [];
    const declared = asArray(member(tool, 'functionDeclarations')).flatMap((one) => declaration(one, strict));
    const others = otherMembers(tool, declarationLists) ?? {};
    const own = Object.entries(others).map(([name, settings]) => providerTool(name, settings));
    return [...declared, ...own];
  });
}

function declaration(value: unknown, strict: boolean): ToolDefinition[] {
  const declared = asObject(value);
  const name = asText(declared?.name);
  if (declared === undefined || name === undefined) return [];
  const tool: {
    -readonly [key in keyof Extract<ToolDefinition, { type: 'function' }>]: Extract<
      ToolDefinition,
      { type: 'function' }
    >[key];
  } = { type: 'function', name };
  const description = asText(declared.description);
  if (description !== undefined) tool.description = description;
  const schema = memberObject(declared, 'parametersJsonSchema');
  const parameters = memberObject(declared, 'parameters');
  if (schema !== undefined) tool.parameters = schema;
  else if (parameters !== undefined) tool.parameters = toJsonSchema(parameters);
  if (strict) tool.strict = true;
  const others = otherMembers(declared, declarationMembers);
  if (others !== undefined) tool.extras = { 'google-gemini': others };
  return [tool];
}

function providerTool(spelling: string, settings: unknown): ToolDefinition {
  const name = spelling.replace(/_([a-z])/g, (_whole, letter: string) => letter.toUpperCase());
  return {
    type: 'provider',
    dialect: 'google-gemini',
    purpose: purposes[name] ?? 'other',
    value: { [name]: settings },
  };
}

/** What `toolConfig` says about calling functions. */
export function decodeToolChoice(body: JsonObject): ChatRequest['toolChoice'] {
  const config = callingConfig(body);
  const names = asArray(config === undefined ? undefined : member(config, 'allowedFunctionNames')).filter(
    (name) => typeof name === 'string',
  );
  const [only] = names;
  switch (callingMode(body)) {
    case 'ANY':
      if (only !== undefined && names.length === 1) return { type: 'tool', name: only, kind: 'function' };
      return only === undefined ? { type: 'required' } : { type: 'allowed', mode: 'required', names };
    case 'NONE':
      return { type: 'none' };
    case 'AUTO':
    case 'VALIDATED':
      return allowedOrAuto(names);
    default:
      return undefined;
  }
}

/** Members of `toolConfig` beside the calling of functions (`retrievalConfig` …). */
export function otherToolConfig(body: JsonObject): JsonObject | undefined {
  return otherMembers(memberObject(body, 'toolConfig') ?? {}, callingConfigs);
}

function allowedOrAuto(names: readonly string[]): ToolChoice {
  return names.length === 0 ? { type: 'auto' } : { type: 'allowed', mode: 'auto', names };
}

function callingConfig(body: JsonObject): JsonObject | undefined {
  return memberObject(memberObject(body, 'toolConfig') ?? {}, 'functionCallingConfig');
}

function callingMode(body: JsonObject): string | undefined {
  const config = callingConfig(body);
  return config === undefined ? undefined : asText(config.mode)?.toUpperCase();
}
