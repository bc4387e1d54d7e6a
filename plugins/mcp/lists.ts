import { isJsonObject } from '../../core/base/json.ts';
import { GatewayError, type JsonObject, type JsonValue } from '../../core/pipeline/plugin.ts';
import type { McpCapabilityType } from '../../core/ports/record-kinds.ts';
import type { Approvals } from './approvals.ts';
import { textOf } from './messages.ts';
import type { McpServer } from './servers.ts';

interface OfferList {
  readonly type: McpCapabilityType;
  /** Member of the result. */
  readonly member: string;
  /** Members that name an entry: each of them may be switched off. */
  readonly names: readonly string[];
}

/** The lists of the protocol by their methods. */
export const offerLists: Readonly<Record<string, OfferList>> = {
  'tools/list': { type: 'tool', member: 'tools', names: ['name'] },
  'prompts/list': { type: 'prompt', member: 'prompts', names: ['name'] },
  'resources/list': { type: 'resource', member: 'resources', names: ['name', 'uri'] },
  'resources/templates/list': {
    type: 'resource_template',
    member: 'resourceTemplates',
    names: ['name', 'uriTemplate'],
  },
};

/** Lists of servers as callers may see them. */
export class OfferFilter {
  readonly #approvals: Pick<Approvals, 'admits'>;

  constructor(approvals: Pick<Approvals, 'admits'>) {
    this.#approvals = approvals;
  }

  /** Result of a list without what is switched off or held back, with the operator's descriptions. */
  ofResult(server: McpServer, result: JsonObject): JsonObject {
    let filtered = result;
    for (const list of Object.values(offerLists)) {
      if (!Object.hasOwn(result, list.member)) continue;
      const items = result[list.member];
      if (!Array.isArray(items)) throw noList(server, list.member);
      const kept = items.flatMap((item) => this.#shown(server, list, item));
      filtered = { ...filtered, [list.member]: kept };
    }
    return filtered;
  }

  /** The entry as it is shown; nothing for one that may not be seen. */
  #shown(server: McpServer, list: OfferList, item: JsonValue): readonly JsonValue[] {
    if (!isJsonObject(item)) return [];
    for (const member of list.names) {
      const name = textOf(item, member);
      if (name !== undefined && !server.isOn(list.type, name)) return [];
    }
    if (list.type !== 'tool') return [item];
    if (!this.#approvals.admits(server, item)) return [];
    const { description } = server.tool(textOf(item, 'name') ?? '') ?? {};
    return [description === undefined ? item : { ...item, description }];
  }
}

function noList({ slug }: McpServer, member: string): GatewayError {
  return new GatewayError(
    'upstream_invalid',
    `The MCP server "${slug}" answered with "${member}" that are no list, which the gateway has to read; see its log.`,
    { source: 'provider' },
  );
}

/** Whether a URI may belong to a template: its fixed parts stand in it in their order, the first one at the start. */
export function matchesTemplate(uri: string, template: string): boolean {
  const parts = template.split(/\{[^{}]*\}/);
  let at = 0;
  for (const [index, part] of parts.entries()) {
    const found = index === 0 ? (uri.startsWith(part) ? 0 : -1) : uri.indexOf(part, at);
    if (found === -1) return false;
    at = found + part.length;
  }
  const last = parts.at(-1) ?? '';
  return last === '' ? parts.length > 1 || at === uri.length : uri.endsWith(last);
}
