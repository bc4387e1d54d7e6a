import { isJsonObject, writeJson } from '../../core/base/json.ts';
import { RecentMap } from '../../core/base/recent-map.ts';
import type { Answer } from '../../core/pipeline/answer.ts';
import { rpcRequestId } from '../../core/pipeline/keys.ts';
import { GatewayError, type JsonObject, type JsonValue } from '../../core/pipeline/plugin.ts';
import { callRecord } from './call-record.ts';
import { Catalogue, type ListMethod, matchesTemplate, type Offers } from './lists.ts';
import { asGathered, GatheredStreams, type Gathering } from './gathered-streams.ts';
import { type RpcId, type RpcMessage, rpcMessages } from './messages.ts';
import type { Account } from './oauth/connections.ts';
import type { Relay, RelayParts } from './relay.ts';
import type { Asked } from './server-link.ts';
import type { McpServer } from './servers.ts';
import type { Session } from './sessions.ts';
import { type Shown, type ToolIndexes, toolSearch } from './tool-search.ts';

/** Between the slug of a server and the name that a tool has there. */
const separator = '__';
const versions = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'];
const maxRendered = 1_000;

/** Parts of serving several servers as one. */
interface GatheredParts extends RelayParts {
  readonly relay: Relay;
  readonly indexes: ToolIndexes;
}

interface Rendered {
  readonly lists: readonly Offers[];
  readonly result: Buffer;
}

/** Serves several servers as one: their tools and prompts under the slug of their server, their resources as they are. */
export class Gathered {
  readonly #parts: GatheredParts;
  readonly #catalogue: Catalogue;
  readonly #streams: GatheredStreams;
  /** Lists as text, by what is selected; valid while their parts are the same. */
  readonly #rendered = new RecentMap<Rendered>(maxRendered);

  constructor(parts: GatheredParts) {
    this.#parts = parts;
    this.#catalogue = new Catalogue(parts.scope, parts.links, parts.relay.filter, parts.maxMessageBytes);
    this.#streams = new GatheredStreams(parts.links, (server, caller) => {
      this.#catalogue.forget(server, caller);
      parts.relay.forgetTools(server);
    });
  }

  /** A user has connected an account; `elicitationId` is the name that the client has for it. */
  elicited(account: Account, elicitationId: string): void {
    this.#streams.elicited(account, elicitationId);
  }

  /** Ends the streams that would go on for ever. */
  endStreams(): void {
    this.#streams.end();
  }

  async answer(gathering: Gathering): Promise<Answer> {
    const { context, session, selection } = gathering;
    context.facts.aiService = 'mcp';
    context.facts.mcpServer = selection.slug;
    if (context.method === 'POST') {
      const answer = await this.#post(gathering);
      // A list of the gateway's own making tells no failure, and can be long.
      return context.facts.operation.endsWith('.list') ? answer : callRecord.answer(context, answer);
    }
    callRecord.method(context);
    if (session === undefined) throw sessionNeeded();
    if (context.method === 'GET') {
      callRecord.openStream(context, this.#parts.scope.clock.monotonic());
      return this.#streams.open(gathering, session);
    }
    await this.#end(gathering, session);
    return { status: 204, headers: [], body: null };
  }

  /** Ends the session here, and those that it has at servers. */
  async #end(gathering: Gathering, session: Session): Promise<void> {
    const { sessions, links } = this.#parts;
    this.#streams.close(session);
    const over = new GatewayError('upstream_reset', 'The session is over.');
    const ends = this.#begun(gathering).map(async (server) => {
      const asking = { method: 'DELETE', body: null, lastEventId: undefined } as const;
      const { body } = await links.send(askedOf(gathering, server), asking);
      body.cancel(over);
    });
    await sessions.end(session);
    await Promise.allSettled(ends);
  }

  async #post(gathering: Gathering): Promise<Answer> {
    const { context, session, selection } = gathering;
    if (!context.body.loaded) await context.body.load();
    const said = rpcMessages.read(context.json);
    const { messages, isBatch } = said;
    if (isBatch)
      throw new GatewayError(
        'mcp_message_invalid',
        'Lists of messages are for single servers. Send them one by one.',
      );
    const message = messages[0] as RpcMessage;
    if (message.kind === 'request' && message.id !== undefined) context.set(rpcRequestId, message.id);
    context.facts.requestBytes = context.body.bytes.length;
    callRecord.messages(context, said);
    if (message.method === 'initialize') return this.#greet(gathering, message);
    if (session === undefined) throw sessionNeeded();
    if (message.kind === 'response') return await this.#respond(gathering, message);
    if (message.kind === 'notification') return await this.#notify(gathering, message);
    const answer = await this.#request(gathering, message);
    // Several servers were asked, or none.
    if (answer.source !== 'provider') context.facts.mcpServer = selection.slug;
    return answer;
  }

  #greet({ selection, caller }: Gathering, { params, id }: RpcMessage): Answer {
    const asked = rpcMessages.textOf(params, 'protocolVersion') ?? '';
    const version = versions.includes(asked) ? asked : (versions[0] as string);
    const result: JsonObject = {
      protocolVersion: version,
      capabilities: {
        tools: { listChanged: true },
        prompts: { listChanged: true },
        resources: { subscribe: true, listChanged: true },
        completions: {},
        logging: {},
      },
      serverInfo: { name: selection.slug === '' ? 'weir' : selection.slug, version: '1' },
      ...(selection.instructions !== undefined && { instructions: selection.instructions }),
    };
    const begun = { slug: selection.slug, greeting: params, version, upstream: undefined };
    return rpcAnswer(id, result, ['mcp-session-id', this.#parts.sessions.begin(begun, caller)]);
  }

  async #request(gathering: Gathering, message: RpcMessage): Promise<Answer> {
    const { method, params, id } = message;
    switch (method) {
      case 'ping':
        return rpcAnswer(id, {});
      case 'logging/setLevel':
        await this.#broadcast(gathering, message);
        return rpcAnswer(id, {});
      case 'tools/list':
        return rpcResult(id, await this.#toolList(gathering));
      case 'tools/call':
        return await this.#call(gathering, message);
      case 'prompts/list':
        return rpcResult(id, await this.#list(gathering, 'prompts/list', 'prompts'));
      case 'prompts/get':
        return await this.#named(gathering, message, params, 'prompt');
      case 'resources/list':
        return rpcResult(id, await this.#list(gathering, 'resources/list', 'resources'));
      case 'resources/templates/list':
        return rpcResult(id, await this.#list(gathering, 'resources/templates/list', 'resourceTemplates'));
      case 'resources/read':
      case 'resources/subscribe':
      case 'resources/unsubscribe':
        return await this.#pass(
          gathering,
          await this.#serverOfUri(gathering, rpcMessages.textOf(params, 'uri')),
          message,
        );
      case 'completion/complete':
        return await this.#complete(gathering, message);
      default:
        return rpcError(
          id,
          -32_601,
          `There is no method ${JSON.stringify(method.slice(0, 64))} for several servers.`,
        );
    }
  }

  async #call(gathering: Gathering, message: RpcMessage): Promise<Answer> {
    const { params, id } = message;
    const { selection } = gathering;
    const name = rpcMessages.textOf(params, 'name') ?? '';
    gathering.context.facts.mcpTool = name;
    if (selection.mode === 'search') {
      const given = isJsonObject(params['arguments']) ? params['arguments'] : {};
      if (name === toolSearch.findTools.name) {
        const shown = await this.#shownTools(gathering);
        return rpcAnswer(id, toolSearch.search(this.#parts.indexes, shown, given));
      }
      if (name !== toolSearch.callTool.name)
        throw rpcMessages.refusedCapability(
          `The tool ${JSON.stringify(name.slice(0, 128))}`,
          `call it with ${toolSearch.callTool.name}`,
        );
      const inner = {
        ...params,
        name: rpcMessages.textOf(given, 'name') ?? '',
        arguments: given['arguments'] ?? {},
      };
      return await this.#callShown(gathering, withParams(message, inner));
    }
    return await this.#callShown(gathering, message);
  }

  /** Calls a tool by the name under which it is shown. */
  async #callShown(gathering: Gathering, message: RpcMessage): Promise<Answer> {
    const name = rpcMessages.textOf(message.params, 'name') ?? '';
    const chosen = gathering.selection.chosen;
    if (chosen !== undefined) {
      const tool = chosen.find((one) => one.shown === name);
      if (tool === undefined) throw unknownName('tool', name);
      return await this.#pass(gathering, tool.server, renamed(message, tool.name));
    }
    return await this.#named(gathering, message, message.params, 'tool');
  }

  /** Passes a message whose `name` begins with the slug of a server. */
  async #named(
    gathering: Gathering,
    message: RpcMessage,
    { name }: JsonObject,
    type: 'tool' | 'prompt',
  ): Promise<Answer> {
    const found = placeOf(gathering.selection.servers, typeof name === 'string' ? name : '');
    if (found === undefined) throw unknownName(type, typeof name === 'string' ? name : '');
    return await this.#pass(gathering, found.server, renamed(message, found.name));
  }

  async #complete(gathering: Gathering, message: RpcMessage): Promise<Answer> {
    const { ref } = message.params;
    if (!isJsonObject(ref))
      throw new GatewayError('mcp_message_invalid', '"completion/complete" has no "ref".');
    const uri = rpcMessages.textOf(ref, 'uri');
    if (uri !== undefined)
      return await this.#pass(gathering, await this.#serverOfUri(gathering, uri), message);
    const found = placeOf(gathering.selection.servers, rpcMessages.textOf(ref, 'name') ?? '');
    if (found === undefined) throw unknownName('prompt', rpcMessages.textOf(ref, 'name') ?? '');
    const params = { ...message.params, ref: { ...ref, name: found.name } };
    return await this.#pass(gathering, found.server, withParams(message, params));
  }

  async #pass(gathering: Gathering, server: McpServer, message: RpcMessage): Promise<Answer> {
    const { session, context } = gathering;
    const forget = this.#streams.running(session as Session, message.id, server);
    context.onAbort(forget);
    try {
      return await this.#parts.relay.pass(askedOf(gathering, server), message, undefined, asGathered(server));
    } finally {
      // An answer that streams is over later; a cancellation then finds its server by the open session alone.
      forget();
    }
  }

  /** The answer of a client to a question of a server, whose id names the server. */
  async #respond(gathering: Gathering, message: RpcMessage): Promise<Answer> {
    const id = String(message.id);
    const at = id.indexOf(':');
    const server = gathering.selection.servers.find(({ slug }) => slug === id.slice(0, Math.max(at, 0)));
    let own: RpcId | undefined;
    try {
      own = JSON.parse(id.slice(at + 1)) as RpcId;
    } catch {
      own = undefined;
    }
    if (server === undefined || (typeof own !== 'string' && typeof own !== 'number'))
      throw new GatewayError(
        'mcp_message_invalid',
        'The "id" of the response is of no question that was asked.',
      );
    return await this.#pass(gathering, server, { ...message, json: { ...message.json, id: own } });
  }

  async #notify(gathering: Gathering, message: RpcMessage): Promise<Answer> {
    if (message.method === 'notifications/cancelled') {
      const id = message.params['requestId'];
      const server = this.#streams.serverOf(gathering.session as Session, id);
      if (server !== undefined) await this.#pass(gathering, server, message);
    } else if (message.method === 'notifications/roots/list_changed')
      await this.#broadcast(gathering, message);
    return { status: 202, headers: [], body: null };
  }

  async #broadcast(gathering: Gathering, message: RpcMessage): Promise<void> {
    await Promise.allSettled(this.#begun(gathering).map((server) => this.#pass(gathering, server, message)));
  }

  /** Servers with which the session has begun. */
  #begun({ selection, session }: Gathering): readonly McpServer[] {
    return selection.servers.filter(({ slug }) =>
      this.#parts.sessions.hasSuccessor(session as Session, slug),
    );
  }

  async #serverOfUri(gathering: Gathering, uri: string | undefined): Promise<McpServer> {
    if (uri === undefined) throw new GatewayError('mcp_message_invalid', 'The "params" have no "uri".');
    const { servers } = gathering.selection;
    const lists = await this.#all(gathering, 'resources/list');
    const listed = servers.find((_, index) =>
      lists[index]?.some((one) => rpcMessages.textOf(one, 'uri') === uri),
    );
    if (listed !== undefined) return listed;
    const templates = await this.#all(gathering, 'resources/templates/list');
    const fitting = servers.find((_, index) =>
      templates[index]?.some((one) => {
        const template = rpcMessages.textOf(one, 'uriTemplate') ?? '';
        return template === uri || matchesTemplate(uri, template);
      }),
    );
    if (fitting !== undefined) return fitting;
    throw rpcMessages.refusedCapability(
      `The resource ${JSON.stringify(uri.slice(0, 128))}`,
      'none of the servers offers it',
    );
  }

  #all(gathering: Gathering, method: ListMethod): Promise<readonly Offers[]> {
    const { servers } = gathering.selection;
    return Promise.all(servers.map((server) => this.#catalogue.of(askedOf(gathering, server), method)));
  }

  async #toolList(gathering: Gathering): Promise<Buffer> {
    const { mode, chosen } = gathering.selection;
    if (mode === 'search')
      return Buffer.from(JSON.stringify({ tools: [toolSearch.findTools, toolSearch.callTool] }));
    if (chosen === undefined) return await this.#list(gathering, 'tools/list', 'tools');
    return Buffer.from(writeJson({ tools: (await this.#shownTools(gathering)).map(({ json }) => json) }));
  }

  /** All tools under the names that clients see. */
  async #shownTools(gathering: Gathering): Promise<readonly Shown[]> {
    const { servers, chosen } = gathering.selection;
    const lists = await this.#all(gathering, 'tools/list');
    if (chosen === undefined)
      return servers.flatMap(({ slug }, index) => (lists[index] ?? []).map((json) => prefixed(json, slug)));
    return chosen.flatMap(({ server, name, shown, description }) => {
      const at = servers.indexOf(server);
      const json = lists[at]?.find((one) => rpcMessages.textOf(one, 'name') === name);
      if (json === undefined) return [];
      return [shownAs(description === undefined ? json : { ...json, description }, shown)];
    });
  }

  /** A list as JSON: made anew only when one of its parts has changed. */
  async #list(gathering: Gathering, method: ListMethod, member: string): Promise<Buffer> {
    const { servers } = gathering.selection;
    const lists = await this.#all(gathering, method);
    const key = `${method}/${servers.map(({ id }) => id).join('/')}`;
    const known = this.#rendered.touch(key);
    if (known !== undefined && known.lists.every((list, index) => list === lists[index])) return known.result;
    const isNamed = method === 'tools/list' || method === 'prompts/list';
    const items = servers.flatMap(({ slug }, index) =>
      (lists[index] ?? []).map((json) => (isNamed ? prefixed(json, slug).json : json)),
    );
    const result = Buffer.from(writeJson({ [member]: items }));
    this.#rendered.set(key, { lists, result });
    return result;
  }
}

function shownAs(json: JsonObject, name: string): Shown {
  return { name, json: { ...json, name } };
}

function askedOf({ context, caller, session }: Gathering, server: McpServer): Asked {
  return { context, caller, session, server };
}

/** The server whose slug begins the name: of several, the longest. */
function placeOf(
  servers: readonly McpServer[],
  name: string,
): { readonly server: McpServer; readonly name: string } | undefined {
  let found: McpServer | undefined;
  for (const server of servers) {
    const isLonger = found === undefined || server.slug.length > found.slug.length;
    if (isLonger && name.startsWith(server.slug + separator)) found = server;
  }
  return found && { server: found, name: name.slice(found.slug.length + separator.length) };
}

function renamed(message: RpcMessage, name: string): RpcMessage {
  return withParams(message, { ...message.params, name });
}

function withParams(message: RpcMessage, params: JsonObject): RpcMessage {
  return { ...message, params, json: { ...message.json, params } };
}

/** Under the name that tells which server has it. */
function prefixed(json: JsonObject, slug: string): Shown {
  return shownAs(json, slug + separator + (rpcMessages.textOf(json, 'name') ?? ''));
}

function sessionNeeded(): GatewayError {
  return new GatewayError(
    'mcp_message_invalid',
    'All servers together need a session: send "initialize" first, and its Mcp-Session-Id with everything else.',
  );
}

function unknownName(type: string, name: string): GatewayError {
  return rpcMessages.refusedCapability(
    `The ${type} ${JSON.stringify(name.slice(0, 128))}`,
    `there is none of that name; ${type}s/list names those that there are`,
  );
}

function rpcAnswer(id: RpcId | undefined, result: JsonValue, headers: readonly string[] = []): Answer {
  return rpcResult(id, Buffer.from(writeJson(result)), headers);
}

function rpcResult(id: RpcId | undefined, result: Buffer, headers: readonly string[] = []): Answer {
  const before = Buffer.from(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":`);
  const body = Buffer.concat([before, result, closing]);
  return { status: 200, headers: ['content-type', 'application/json', ...headers], body, isJson: true };
}

const closing = Buffer.from('}');

function rpcError(id: RpcId | undefined, code: number, message: string): Answer {
  const body = Buffer.from(JSON.stringify({ jsonrpc: '2.0', id, error: { code, message } }));
  return { status: 200, headers: ['content-type', 'application/json'], body, isJson: true };
}
