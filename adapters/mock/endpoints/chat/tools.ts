import { isObject, member, missing, optionalBoolean, wrongType, type JsonObject } from '../../json-value.ts';
import { invalid } from '../../problem.ts';

const maxTools = 128;

/** A function that the model may call. */
export interface OfferedTool {
  readonly name: string;
  /** JSON Schema of its arguments. */
  readonly parameters: unknown;
}

/** Which functions are offered and which of them the request wants called. */
export interface ToolPlan {
  readonly offered: readonly OfferedTool[];
  /** Functions to call; empty for an answer in words. */
  readonly called: readonly OfferedTool[];
  /** `tool_choice: none` or no tools: not even the model's name can ask for a call. */
  readonly forbidden: boolean;
  readonly parallel: boolean;
  /** The deprecated `functions` were used: the answer says `function_call`. */
  readonly legacy: boolean;
}

/** Reads tools and the choice among them. `said` is the user's text; a function that it names is called. */
export function readTools(body: JsonObject, said: string): ToolPlan {
  const legacy = member(body, 'tools') === undefined && member(body, 'functions') !== undefined;
  const offered = legacy ? readFunctions(body) : readToolList(body);
  const parallel = !legacy && optionalBoolean(body, 'parallel_tool_calls', true);
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
    if (!isObject(tool)) throw wrongType(`tools[${index}]`, 'an object', tool);
    const type = member(tool, 'type');
    if (type === undefined) throw missing(`tools[${index}].type`);
    // Other kinds of tools (`custom` …) are accepted and never called.
    if (type !== 'function') return [];
    return [readFunction(member(tool, 'function'), `tools[${index}].function`)];
  });
}

function readFunctions(body: JsonObject): OfferedTool[] {
  return readList(body, 'functions').map((value, index) => readFunction(value, `functions[${index}]`));
}

function readList(body: JsonObject, name: string): readonly unknown[] {
  const list = member(body, name);
  if (list === undefined) return [];
  if (!Array.isArray(list)) throw wrongType(name, 'an array', list);
  if (list.length > maxTools) {
    throw invalid(name, `Invalid '${name}': at most ${maxTools} items, but got ${list.length} instead.`);
  }
  return list;
}

function readFunction(value: unknown, place: string): OfferedTool {
  if (!isObject(value)) throw missing(place);
  const name = member(value, 'name');
  if (name === undefined) throw missing(`${place}.name`);
  if (typeof name !== 'string' || !/^[a-zA-Z0-9_.-]{1,64}$/.test(name)) {
    throw invalid(`${place}.name`, `Invalid '${place}.name': 1 to 64 letters, digits, '_', '-' or '.'.`);
  }
  return { name, parameters: member(value, 'parameters') ?? { type: 'object', properties: {} } };
}

function readChoice(
  body: JsonObject,
  legacy: boolean,
  offered: readonly OfferedTool[],
): 'none' | 'auto' | 'required' | OfferedTool {
  const param = legacy ? 'function_call' : 'tool_choice';
  const choice = member(body, param);
  if (choice === undefined) return 'auto';
  if (choice === 'none' || choice === 'auto') return choice;
  if (choice === 'required' && !legacy) {
    if (offered.length === 0) throw invalid(param, `'${param}' needs 'tools'.`);
    return choice;
  }
  const named = isObject(choice) ? nameIn(choice, legacy) : undefined;
  if (named === undefined) {
    throw invalid(param, `Invalid '${param}': expected none, auto, required or an object with a function.`);
  }
  const tool = offered.find((candidate) => candidate.name === named);
  if (tool === undefined) throw invalid(param, `'${param}' names a function that is not offered.`);
  return tool;
}

function nameIn(choice: JsonObject, legacy: boolean): string | undefined {
  const holder = legacy ? choice : member(choice, 'function');
  const name = isObject(holder) ? member(holder, 'name') : undefined;
  return typeof name === 'string' ? name : undefined;
}

/** A text as words between single spaces, so that `get_weather` and `get weather` are the same. */
function asWords(text: string): string {
  return ` ${text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, ' ')
    .trim()} `;
}
