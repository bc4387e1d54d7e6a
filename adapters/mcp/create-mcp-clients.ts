import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import { TrustedHosts } from '../../core/base/host-rules.ts';
import { toolDigest } from '../../core/organisation/tool-digest.ts';
import type { Log } from '../../core/ports/log.ts';
import type {
  McpAddress,
  McpClients,
  McpDescription,
  McpOffer,
  McpRemoteTarget,
  McpTarget,
  McpUpstream,
  McpStdioTarget,
  McpRequest,
} from '../../core/ports/mcp.ts';
import type { OauthClients } from '../../core/ports/oauth.ts';
import type { Transport } from '../../core/ports/transport.ts';
import { createAddressGuard, type Resolve } from '../addresses/address-guard.ts';
import { admitUrl } from '../guarded-fetch/guarded-fetch.ts';
import { TlsSessions } from '../transport/connection.ts';
import { mcpErrors, mcpLimits, type McpLimits, type Surroundings } from './conversation-fetch.ts';
import { Conversation, type Spoken } from './conversation.ts';
import type { RpcMessage } from './json-rpc.ts';
import type { LinkReceiver, MessageLink, Delivery } from './message-session.ts';
import { MessageSessions } from './message-sessions.ts';
import { OpenapiUpstream } from './openapi/openapi-upstream.ts';
import { createSseUpstream, HttpUpstream } from './http-upstream.ts';
import { SharedChild } from './shared-child.ts';
import { childErrors, ChildLog, StartDelays, StdioChild } from './stdio-child.ts';

/** Deeper than any description, and far below the limits of a stack or a store. */
const maxDepth = 64;

/** Kept members of an object, and the number of dropped ones. */
interface FittingMembers {
  readonly kept: Readonly<Record<string, unknown>>;
  readonly leftOut: number;
}

/**
 * The members of a foreign object in a form that every store accepts: text without NUL and without unpaired surrogates
 * (replaced by U+FFFD). In order, as many as fit into `maxBytes` of JSON; one that does not fit, or is nested deeper
 * than 64, is left out whole.
 */
export function fittingMembers(members: Readonly<Record<string, unknown>>, maxBytes: number): FittingMembers {
  const kept: [string, unknown][] = [];
  let leftOut = 0;
  let bytes = 2;
  for (const [rawName, value] of Object.entries(members)) {
    if (value === undefined) continue;
    const name = storableText(rawName);
    const copy = plainCopy(value, 1);
    // Including the quotes, the colon and the comma around them.
    const size = copy === tooDeep ? Infinity : jsonBytes(name) + jsonBytes(copy) + 2;
    if (bytes + size > maxBytes) {
      leftOut += 1;
      continue;
    }
    bytes += size;
    kept.push([name, copy]);
  }
  return { kept: Object.fromEntries(kept), leftOut };
}

/** The text without characters that stores refuse. */
export function storableText(text: string): string {
  return text.replace(/\0|\p{Surrogate}/gu, '\ufffd');
}

const tooDeep = Symbol('nested too deep');

function plainCopy(value: unknown, depth: number): unknown {
  if (typeof value === 'string') return storableText(value);
  if (typeof value !== 'object' || value === null) return value;
  if (depth === maxDepth) return tooDeep;
  const entries: [string, unknown][] = [];
  for (const [name, member] of Object.entries(value)) {
    const copy = plainCopy(member, depth + 1);
    if (copy === tooDeep) return tooDeep;
    entries.push([storableText(name), copy]);
  }
  return Array.isArray(value) ? entries.map(([, member]) => member) : Object.fromEntries(entries);
}

function jsonBytes(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}

/** The lists of the protocol, in request order. `key` distinguishes entries of one name. */
const lists = [
  { type: 'tool', announced: 'tools', method: 'tools/list', member: 'tools', key: 'name' },
  { type: 'prompt', announced: 'prompts', method: 'prompts/list', member: 'prompts', key: 'name' },
  { type: 'resource', announced: 'resources', method: 'resources/list', member: 'resources', key: 'uri' },
  {
    type: 'resource_template',
    announced: 'resources',
    method: 'resources/templates/list',
    member: 'resourceTemplates',
    key: 'uriTemplate',
  },
] as const;

type OfferList = (typeof lists)[number];

/** One entry of a list, validated by the library. */
type Listed = Readonly<Record<string, unknown>> & { readonly name: string };

/** All offers of a server, and the omitted ones, in words for the log. */
interface ListedOffers {
  readonly offers: readonly McpOffer[];
  readonly leftOut: readonly string[];
}

/** Requests every list that the server's capabilities announce, in sequence. */
async function listOffers(spoken: Spoken, limits: McpLimits): Promise<ListedOffers> {
  const announced = spoken.client.getServerCapabilities() ?? {};
  const offers: McpOffer[] = [];
  const leftOut: string[] = [];
  for (const list of lists) {
    if (announced[list.announced] === undefined) continue;
    const items = await itemsOf(list, spoken, limits, leftOut);
    for (const offer of offersOf(list, items, limits, leftOut)) offers.push(offer);
  }
  return { offers, leftOut };
}

async function itemsOf(
  list: OfferList,
  spoken: Spoken,
  { maxOffers, maxPages }: McpLimits,
  leftOut: string[],
): Promise<readonly Listed[]> {
  const items: Listed[] = [];
  const cursors = new Set<string>();
  let cursor: string | undefined;
  for (;;) {
    const page = await pageOf(list, spoken, cursor);
    items.push(...page.items);
    cursor = page.nextCursor;
    if (cursor === undefined) break;
    if (cursors.has(cursor) || cursors.size + 1 === maxPages || items.length >= maxOffers) {
      leftOut.push(`${list.member}: the pages after the first ${items.length}`);
      break;
    }
    cursors.add(cursor);
  }
  if (items.length > maxOffers) leftOut.push(`${list.member}: ${items.length - maxOffers} over ${maxOffers}`);
  return items.slice(0, maxOffers);
}

// `client.listTools` is not used: it compiles the server's output schemas into code.
async function pageOf(
  { method, member }: OfferList,
  { client, library }: Spoken,
  cursor: string | undefined,
): Promise<{ readonly items: readonly Listed[]; readonly nextCursor: string | undefined }> {
  try {
    const request = { method, params: cursor === undefined ? {} : { cursor } };
    const result: Readonly<Record<string, unknown>> & { readonly nextCursor?: string | undefined } =
      await client.request(request, library.listSchemas[method]);
    return { items: result[member] as readonly Listed[], nextCursor: result.nextCursor };
  } catch (error) {
    // Templates have no capability of their own.
    if (error instanceof library.McpError && error.code === Number(library.methodNotFound)) {
      return { items: [], nextCursor: undefined };
    }
    throw error;
  }
}

/** Makes names unique: resources of one name use their addresses; of tools and prompts, the first one counts. */
function offersOf(
  { type, member, key }: OfferList,
  items: readonly Listed[],
  { maxDescribedBytes, maxNameLength }: McpLimits,
  leftOut: string[],
): readonly McpOffer[] {
  const shared = sharedNames(items);
  const offers = new Map<string, McpOffer>();
  let members = 0;
  for (const item of items) {
    const { name: given, ...others } = item;
    const isShared = key !== 'name' && shared.has(given);
    const name = storableText(isShared ? String(item[key]) : given);
    if (name === '' || name.length > maxNameLength || offers.has(name)) continue;
    const described = fittingMembers(isShared ? item : others, maxDescribedBytes);
    members += described.leftOut;
    const digest = type === 'tool' ? toolDigest(others) : undefined;
    offers.set(name, { type, name, described: described.kept, ...(digest !== undefined && { digest }) });
  }
  const nameless = items.length - offers.size;
  if (nameless > 0) leftOut.push(`${member}: ${nameless} whose names are empty, too long or taken`);
  if (members > 0) leftOut.push(`${member}: ${members} members that are too large`);
  return [...offers.values()];
}

function sharedNames(items: readonly Listed[]): ReadonlySet<string> {
  const seen = new Set<string>();
  const shared = new Set<string>();
  for (const { name } of items) (seen.has(name) ? shared : seen).add(name);
  return shared;
}

/** Options of `createMcpClients`. */
export interface McpClientsOptions {
  readonly log: Log;
  readonly clock: Clock;
  /** Carries requests of `upstream`; handshakes have connections of their own. Default: none, for handshakes alone. */
  readonly transport?: Transport;
  /** Default: none, for servers without OAuth. */
  readonly oauth?: OauthClients;
  /** `security.trusted_hosts`. */
  readonly trustedHosts: readonly string[];
  /** Resolves names. Default: the system's resolver. */
  readonly resolve?: Resolve;
  /** Default: `mcpLimits` for each absent member. */
  readonly limits?: Partial<McpLimits>;
}

/**
 * Creates clients of the Model Context Protocol. Nothing is kept between conversations, so they need no closing; the
 * protocol library is loaded with the first one.
 */
export function createMcpClients(options: McpClientsOptions): McpClients {
  return new GuardedMcpClients(options);
}

class GuardedMcpClients implements McpClients {
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #transport: Transport | undefined;
  readonly #oauth: OauthClients | undefined;
  readonly #around: Surroundings;
  #underWay = 0;

  constructor({ log, clock, transport, oauth, trustedHosts, resolve, limits }: McpClientsOptions) {
    this.#log = log;
    this.#transport = transport;
    this.#oauth = oauth;
    this.#clock = clock;
    this.#around = {
      trusted: new TrustedHosts(trustedHosts),
      guard: createAddressGuard(resolve),
      observer: {
        sessions: new TlsSessions(),
        opened: () => 0,
        connected: () => undefined,
        closed: () => undefined,
      },
      limits: { ...mcpLimits, ...limits },
    };
  }

  async describe(address: McpAddress): Promise<McpDescription> {
    const { limits } = this.#around;
    return await this.#hold(address, async (spoken, host) => {
      const { offers, leftOut } = await listOffers(spoken, limits);
      const flags = fittingMembers(spoken.client.getServerCapabilities() ?? {}, limits.maxDescribedBytes);
      if (leftOut.length > 0 || flags.leftOut > 0) {
        const capabilities = flags.leftOut > 0 ? ['capabilities: members that are too large'] : [];
        this.#log.warn('Not all that an MCP server offers is kept', {
          host,
          leftOut: [...capabilities, ...leftOut],
        });
      }
      const { name, version } = this.#calledItself(spoken);
      const { protocolVersion } = spoken;
      return {
        serverName: name,
        serverVersion: version,
        protocolVersion,
        capabilityFlags: flags.kept,
        offers,
      };
    });
  }

  async greet(address: McpAddress): Promise<{ readonly serverName: string }> {
    return await this.#hold(address, (spoken) =>
      Promise.resolve({ serverName: this.#calledItself(spoken).name }),
    );
  }

  upstream(target: McpTarget): McpUpstream {
    const { trusted } = this.#around;
    const transport = this.#transport;
    if (transport === undefined) throw new Error('These clients have no transport and only shake hands.');
    return createUpstream(target, { transport, trusted, log: this.#log, clock: this.#clock });
  }

  get oauth(): OauthClients {
    if (this.#oauth === undefined) throw new Error('These clients speak to no authorization server.');
    return this.#oauth;
  }

  async #hold<Result>(
    address: McpAddress,
    say: (spoken: Spoken, host: string) => Promise<Result>,
  ): Promise<Result> {
    const conversation = new Conversation(address, this.#around, this.#clock);
    const { host } = conversation;
    const { maxConversations } = this.#around.limits;
    if (this.#underWay >= maxConversations) {
      const why = `${maxConversations} handshakes are under way, the most that are allowed; try again shortly`;
      throw mcpErrors.failed(host, why);
    }
    this.#underWay += 1;
    try {
      return await conversation.hold((spoken) => say(spoken, host));
    } catch (error) {
      const { code, message, cause } = error as GatewayError;
      this.#log.debug('A handshake with an MCP server failed', { host, code, message, cause });
      throw error;
    } finally {
      this.#underWay -= 1;
    }
  }

  #calledItself({ client }: Spoken): { readonly name: string; readonly version: string } {
    const { name = '', version = '' } = client.getServerVersion() ?? {};
    const { maxNameLength } = this.#around.limits;
    return {
      name: storableText(name.slice(0, maxNameLength)),
      version: storableText(version.slice(0, maxNameLength)),
    };
  }
}

/** What the ways to servers share. */
interface UpstreamSurroundings {
  readonly transport: Transport;
  readonly trusted: TrustedHosts;
  readonly log: Log;
  readonly clock: Clock;
}

/** The way to a server. Throws `address_refused`. */
export function createUpstream(target: McpTarget, around: UpstreamSurroundings): McpUpstream {
  if (target.type === 'stdio') return createStdioUpstream(target, around.log, around.clock);
  return target.type === 'openapi' ? new OpenapiUpstream(target, around) : remoteUpstream(target, around);
}

function remoteUpstream(target: McpRemoteTarget, { transport, trusted, clock }: UpstreamSurroundings) {
  const admitted = target.guarded
    ? admitUrl(target.url, trusted)
    : { url: new URL(target.url), trusted: true };
  const place = { url: admitted.url, guarded: !admitted.trusted, transport };
  return target.type === 'http' ? new HttpUpstream(place) : createSseUpstream({ ...place, clock });
}

/** A server that runs as a child process of the gateway. */
function createStdioUpstream(target: McpStdioTarget, log: Log, clock: Clock): MessageSessions {
  const Children = target.isShared === true ? SharedChild : OwnChildren;
  return new MessageSessions(new Children(target, log, clock), clock);
}

/** One child for each session. */
class OwnChildren {
  readonly peer: string;
  readonly maxSessions: number;
  readonly target: McpStdioTarget;
  readonly clock: Clock;
  readonly log: ChildLog;
  readonly delays: StartDelays;
  /** Links whose child runs, or has been asked to end. */
  readonly #running = new Set<OwnLink>();
  #starting: OwnLink[] = [];

  constructor(target: McpStdioTarget, log: Log, clock: Clock) {
    this.peer = target.name;
    this.maxSessions = target.maxChildren;
    this.target = target;
    this.clock = clock;
    this.log = new ChildLog(target, log, clock);
    this.delays = new StartDelays(target.name, this.log, clock);
  }

  open(_handshake: McpRequest, receiver: LinkReceiver): MessageLink {
    this.delays.requireSoon();
    const link = new OwnLink(this, receiver);
    this.#starting.push(link);
    this.#startNext();
    return link;
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  /** Its child has ended. */
  left(link: OwnLink): void {
    this.#running.delete(link);
    this.#starting = this.#starting.filter((other) => other !== link);
    this.#startNext();
  }

  /** A child that has been asked to end counts until it is gone. */
  #startNext(): void {
    const link = this.#running.size < this.maxSessions ? this.#starting.shift() : undefined;
    if (link === undefined) return;
    this.#running.add(link);
    link.start();
  }
}

/** The way to the child of one session. */
class OwnLink implements MessageLink {
  readonly #children: OwnChildren;
  readonly #receiver: LinkReceiver;
  #child: StdioChild | undefined;
  #waiting: { readonly message: RpcMessage; readonly delivery: Delivery }[] = [];
  #cancelStart: () => void = () => undefined;
  #isGreeted = false;
  #isClosed = false;

  constructor(children: OwnChildren, receiver: LinkReceiver) {
    this.#children = children;
    this.#receiver = receiver;
  }

  /** Starts the child, after the delay that failures have brought about. */
  start(): void {
    const { clock, delays } = this.#children;
    const { waitMs } = delays;
    if (waitMs === 0) this.#startNow();
    else this.#cancelStart = clock.after(waitMs, () => this.#startNow());
  }

  #startNow(): void {
    const { target, log, clock } = this.#children;
    this.#child = new StdioChild(target, log, clock, {
      message: (message) => this.#receive(message),
      oversized: (id) => this.#receiver.receiveOversized(id),
      ended: (reason) => this.#ended(reason),
    });
    for (const { message, delivery } of this.#waiting) this.send(message, delivery);
    this.#waiting = [];
  }

  send(message: RpcMessage, delivery: Delivery): void {
    const child = this.#child;
    if (child === undefined) this.#waiting.push({ message, delivery });
    else if (child.write(message.text)) queueMicrotask(() => delivery.delivered());
    else queueMicrotask(() => delivery.failed(childErrors.notReading(this.#children.peer)));
  }

  pause(): void {
    this.#child?.pause();
  }

  resume(): void {
    this.#child?.resume();
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#cancelStart();
    this.#waiting = [];
    await this.#child?.stop();
    this.#children.left(this);
  }

  #receive(message: RpcMessage): void {
    if (this.#isClosed) return;
    if (message.kind === 'response' && !this.#isGreeted) {
      this.#isGreeted = true;
      this.#children.delays.succeeded();
    }
    this.#receiver.receive(message);
  }

  #ended(reason: string): void {
    if (this.#isClosed) return;
    const { delays, log, peer } = this.#children;
    if (this.#isGreeted) log.warn(`${reason}; its session is over`);
    else delays.failed(reason);
    const error = this.#isGreeted ? ended(peer, reason) : childErrors.unreachable(peer, reason);
    this.#receiver.ended(error);
  }
}

/** The child of a session has ended. */
function ended(name: string, reason: string): GatewayError {
  const message = `The MCP server ${name} ${reason}; send the request again in a new session.`;
  return new GatewayError('upstream_reset', message);
}
