import MiniSearch from 'minisearch';
import type { JsonObject } from '../../core/pipeline/plugin.ts';
import { rpcMessages } from './messages.ts';

/** A tool under the name that clients see. */
export interface Shown {
  readonly name: string;
  readonly json: JsonObject;
}

/** Instead of a long list, clients get this tool to find others … */
const findTools = {
  name: 'search_tools',
  description:
    'Finds tools by words that describe the task. Returns names, descriptions and input schemas of the best matches; call one of them with call_tool.',
  inputSchema: {
    type: 'object',
    properties: {
      query: { type: 'string', description: 'Words that describe the task.' },
      limit: { type: 'integer', minimum: 1, maximum: 50, description: 'Most tools to return. Default 8.' },
    },
    required: ['query'],
  },
  annotations: { readOnlyHint: true },
};

/** … and this one to call them. */
const callTool = {
  name: 'call_tool',
  description: 'Calls a tool that search_tools has found.',
  inputSchema: {
    type: 'object',
    properties: {
      name: { type: 'string', description: 'Name of the tool, as search_tools gives it.' },
      arguments: { type: 'object', description: 'Arguments by the input schema of the tool.' },
    },
    required: ['name'],
  },
};

/** Tools that find and call other tools. */
export const toolSearch = { findTools, callTool, search: searchTools };

interface Indexed {
  readonly id: number;
  readonly name: string;
  readonly words: string;
  readonly description: string;
  readonly parameters: string;
}

const defaultLimit = 8;
const longestQuery = 1_000;
const fields = ['name', 'words', 'description', 'parameters'];

/** Search indexes by what is indexed; few sets of tools are searched at a time. */
export class ToolIndexes {
  readonly #known = new WeakMap<readonly Shown[], MiniSearch<Indexed>>();
  #last: { readonly key: string; readonly tools: readonly Shown[] } | undefined;

  /** The same index for equal lists of tools. */
  of(tools: readonly Shown[]): MiniSearch<Indexed> {
    const key = tools
      .map(({ name, json }) => `${name}\n${rpcMessages.textOf(json, 'description') ?? ''}`)
      .join('\n');
    if (this.#last?.key !== key) this.#last = { key, tools };
    const same = this.#last.tools;
    let index = this.#known.get(same);
    if (index === undefined) {
      index = new MiniSearch<Indexed>({
        fields,
        searchOptions: { prefix: true, fuzzy: 0.2, boost: { words: 2 } },
      });
      index.addAll(same.map(indexed));
      this.#known.set(same, index);
    }
    return index;
  }
}

function indexed({ name, json }: Shown, id: number): Indexed {
  return {
    id,
    name,
    // `createTicket` and `create_ticket` are found by "create ticket".
    words: name.replace(/([a-z])([A-Z])/g, '$1 $2').replaceAll(/[_\-.]+/g, ' '),
    description: rpcMessages.textOf(json, 'description') ?? '',
    parameters: JSON.stringify(json['inputSchema'] ?? {}),
  };
}

/** Result of a call of `search_tools`. */
function searchTools(indexes: ToolIndexes, tools: readonly Shown[], given: JsonObject): JsonObject {
  const query = (rpcMessages.textOf(given, 'query') ?? '').slice(0, longestQuery);
  const { limit } = given;
  const most = typeof limit === 'number' && limit >= 1 ? Math.min(Math.floor(limit), 50) : defaultLimit;
  const found = indexes
    .of(tools)
    .search(query, { combineWith: 'OR' })
    .slice(0, most)
    .flatMap(({ id }) => tools[id as number] ?? []);
  const shown = found.map(({ json }) => ({
    name: json['name'] ?? '',
    description: json['description'] ?? '',
    inputSchema: json['inputSchema'] ?? {},
  }));
  const text =
    shown.length === 0
      ? `None of the ${tools.length} tools matches. Try other words.`
      : JSON.stringify(shown);
  return { content: [{ type: 'text', text }], structuredContent: { tools: shown } };
}
