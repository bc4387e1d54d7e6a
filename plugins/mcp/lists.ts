import { isJsonObject } from '../../core/base/json.ts';
import { GatewayError, type JsonObject, type JsonValue, type Scope } from '../../core/pipeline/plugin.ts';
import type { McpCapabilityType } from '../../core/ports/record-kinds.ts';
import type { Approvals } from './approvals.ts';
import { rpcMessages } from './messages.ts';
import type { McpServer } from './servers.ts';
import { RecentMap } from '../../core/base/recent-map.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import { type ServerIdentity, takesTokens } from './oauth/server-identity.ts';
import type { Asked, ServerLinks } from './server-link.ts';

/** Methods of lists. */
export type ListMethod = 'tools/list' | 'prompts/list' | 'resources/list' | 'resources/templates/list';

/** What one server offers in one list, as callers may see it. Immutable. */
export type Offers = readonly JsonObject[];

/** A list is asked for again after this time, and when the server says that it has changed. */
const freshMs = 60_000;
/** The error of a server that did not answer is kept for this time. */
const failedMs = 5_000;
const maxKnown = 2_000;
const maxOffers = 2_000;

interface Known {
  readonly offers: Promise<Offers>;
  readonly until: number;
}

const none: Offers = [];
/** In place of the tools of a server at which the user has no account yet: a call is refused with the link. */
const connectTool: JsonObject & { readonly name: string } = {
  name: 'connect',
  description: "Connects the user's account at this server, whose tools are there afterwards.",
  inputSchema: { type: 'object', properties: {} },
};

/** Lists of servers, asked for once for all callers that reach a server in the same way. */
export class Catalogue {
  readonly #scope: Pick<Scope, 'clock' | 'log'>;
  readonly #links: ServerLinks;
  readonly #filter: OfferFilter;
  readonly #maxBytes: number;
  readonly #known = new RecentMap<Known>(maxKnown);

  constructor(
    scope: Pick<Scope, 'clock' | 'log'>,
    links: ServerLinks,
    filter: OfferFilter,
    maxBytes: number,
  ) {
    this.#scope = scope;
    this.#links = links;
    this.#filter = filter;
    this.#maxBytes = maxBytes;
  }

  /** The whole list; the same array until it changes. A server that fails offers nothing, and the log says why. */
  of(asked: Asked, method: ListMethod): Promise<Offers> {
    const key = keyOf(asked, method);
    const now = this.#scope.clock.monotonic();
    const known = this.#known.touch(key);
    if (known !== undefined && known.until > now) return known.offers;
    const offers = this.#read(asked, method).catch((error: unknown) => {
      const { server } = asked;
      this.#known.set(key, { offers, until: this.#scope.clock.monotonic() + failedMs });
      if (GatewayError.is(error) && error.code === 'mcp_connection_missing')
        return method === 'tools/list' && server.isOn('tool', connectTool.name) ? [connectTool] : none;
      this.#scope.log.warn('An MCP server does not tell what it offers and is left out of the list', {
        server: server.slug,
        method,
        error: GatewayError.is(error) ? error.message : String(error),
      });
      return none;
    });
    this.#known.set(key, { offers, until: now + freshMs });
    return offers;
  }

  /** The server has said on a stream of this caller that its lists have changed. */
  forget(server: McpServer, caller: KeyRecord): void {
    for (const method of Object.keys(offerLists)) this.#known.delete(keyOf({ server, caller }, method));
  }

  async #read(asked: Asked, method: ListMethod): Promise<Offers> {
    const { member } = offerLists[method] as { readonly member: string };
    const found: JsonObject[] = [];
    let hasMore = false;
    for await (const page of this.#links.pages(asked, method, this.#maxBytes)) {
      const { result } = page;
      if (result === undefined) {
        if (page.isUnknownMethod) return none;
        throw new GatewayError('mcp_failed', `It answered with ${page.failure}.`);
      }
      const items = this.#filter.ofResult(asked.server, result)[member];
      if (Array.isArray(items)) found.push(...items.filter(isJsonObject));
      hasMore = page.hasMore;
      if (found.length >= maxOffers) break;
    }
    if (!hasMore) return found;
    this.#scope.log.warn('An MCP server offers more than is listed; the rest is left out', {
      server: asked.server.slug,
      method,
      listed: Math.min(found.length, maxOffers),
    });
    return found.slice(0, maxOffers);
  }
}

/** A server that learns who calls may offer each of them something else. */
function keyOf({ server, caller }: Pick<Asked, 'server' | 'caller'>, method: string): string {
  const { id, identity } = server;
  const key = `${id}/${method}`;
  if (identity === undefined || !tellsCallers(identity)) return key;
  const { organisationId, workspaceId, id: keyId, userId } = caller;
  return JSON.stringify([key, organisationId, workspaceId, keyId, userId]);
}

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
      const name = rpcMessages.textOf(item, member);
      if (name !== undefined && !server.isOn(list.type, name)) return [];
    }
    if (list.type !== 'tool') return [item];
    if (!this.#approvals.admits(server, item)) return [];
    const { description } = server.tool(rpcMessages.textOf(item, 'name') ?? '') ?? {};
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

/** Requests to the server depend on who calls: by the token that is sent, or by headers. */
function tellsCallers(server: ServerIdentity): boolean {
  const { authType, oauth, identityHeaders } = server;
  const isTokenOfCallers = authType === 'oauth_auto' || oauth.token_exchange !== undefined;
  return (takesTokens(server) && isTokenOfCallers) || Object.keys(identityHeaders).length > 0;
}
