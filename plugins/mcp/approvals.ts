import { RecentMap } from '../../core/base/recent-map.ts';
import { isJsonObject } from '../../core/base/json.ts';
import { toolDigest } from '../../core/organisation/tool-digest.ts';
import type { JsonObject, Scope } from '../../core/pipeline/plugin.ts';
import { rpcMessages } from './messages.ts';
import type { Asked, ServerLinks } from './server-link.ts';
import type { McpServer } from './servers.ts';

/** Parts that approvals need. */
interface ApprovalParts {
  readonly scope: Pick<Scope, 'clock' | 'log' | 'metrics'>;
  readonly links: Pick<ServerLinks, 'pages'>;
  /** Of one page of a list. */
  readonly maxMessageBytes: number;
}

/** The tools of one server as it described them lately. */
interface SeenTools {
  /** Digests of the approved ones, with the time at which a list said so. */
  readonly digests: Map<string, { readonly digest: string | undefined; readonly at: number }>;
  /** Time of the last whole list that the gateway asked for; undefined before. */
  askedAt: number | undefined;
}

/** A description that was seen is relied on for so long, unless the server announces a change. */
const freshMs = 300_000;
const maxServers = 1_000;
/** Changes whose warning is not repeated. */
const maxWarned = 10_000;

/** Holds back tools that servers describe otherwise than they were approved, in lists and calls. */
export class Approvals {
  readonly #parts: ApprovalParts;
  readonly #heldBack: (labels: { readonly server: string }) => { inc(): void };
  readonly #seen = new RecentMap<SeenTools>(maxServers);
  /** Lists that are being read, by server. */
  readonly #asking = new Map<string, Promise<void>>();
  readonly #warned = new RecentMap<true>(maxWarned);

  constructor(parts: ApprovalParts) {
    this.#parts = parts;
    this.#heldBack = parts.scope.metrics.counter({
      name: 'weir_mcp_tools_held_back_total',
      help: 'Tools that were left out of lists, and calls that were refused, because the tool is not as it was approved.',
      labels: ['server'],
    });
  }

  /** Whether an entry of a list of tools may be shown; remembers how the server describes it. */
  admits(server: McpServer, tool: JsonObject): boolean {
    const name = rpcMessages.textOf(tool, 'name') ?? '';
    const approved = server.approvedDigest(name);
    if (approved === undefined) return true;
    const digest = toolDigest(tool);
    this.#seenTools(server).digests.set(name, { digest, at: this.#parts.scope.clock.monotonic() });
    if (digest === approved) return true;
    this.#holdBack(server, name, digest);
    return false;
  }

  /**
   * Throws `mcp_capability_refused` for a tool that is not as it was approved. Asks the server for its list first, where
   * none was seen lately; a list that cannot be read is as one without the tool. A tool that is not on the list can be
   * called unless the operator has pinned it: there is no description that could have changed a model's mind.
   */
  async require(asked: Asked, name: string): Promise<void> {
    const { server, context } = asked;
    const approved = server.approvedDigest(name);
    if (approved === undefined) return;
    if (approved !== '' && !this.#knows(server, name)) {
      const shared = this.#asking.get(server.id);
      if (shared !== undefined) await shared.catch(() => undefined);
      // The one who asked may have left.
      if (!this.#knows(server, name) && !context.aborted) await this.#askOnce(asked);
    }
    const seen = this.#seenTools(server).digests.get(name);
    if (seen === undefined && approved !== '' && !server.requiresListed) return;
    if (seen !== undefined && seen.digest === approved) return;
    this.#holdBack(server, name, seen?.digest);
    throw rpcMessages.refusedCapability(
      `The tool ${JSON.stringify(name.slice(0, 128))} of the MCP server "${server.slug}"`,
      reason(approved, seen),
    );
  }

  /** A message of the server: forgets its tools when it announces that they have changed. */
  heard(server: McpServer, message: JsonObject): void {
    if (message['method'] === 'notifications/tools/list_changed') this.forget(server);
  }

  /** Nothing that was seen of the server's tools is relied on any more. */
  forget({ id }: McpServer): void {
    this.#seen.delete(id);
  }

  #knows(server: McpServer, name: string): boolean {
    const { digests, askedAt } = this.#seenTools(server);
    const at = digests.get(name)?.at ?? askedAt;
    return at !== undefined && this.#parts.scope.clock.monotonic() - at < freshMs;
  }

  #seenTools({ id }: McpServer): SeenTools {
    let seen = this.#seen.touch(id);
    if (seen === undefined) this.#seen.set(id, (seen = { digests: new Map(), askedAt: undefined }));
    return seen;
  }

  async #askOnce(asked: Asked): Promise<void> {
    const { id } = asked.server;
    const asking = this.#ask(asked).finally(() => {
      if (this.#asking.get(id) === asking) this.#asking.delete(id);
    });
    this.#asking.set(id, asking);
    await asking;
  }

  /** Reads the whole list of the server's tools. */
  async #ask(asked: Asked): Promise<void> {
    const { server } = asked;
    const { scope, links, maxMessageBytes } = this.#parts;
    const startedAt = scope.clock.monotonic();
    for await (const { result } of links.pages(asked, 'tools/list', maxMessageBytes)) {
      const tools = result?.['tools'];
      if (!Array.isArray(tools)) break;
      for (const tool of tools) if (isJsonObject(tool)) this.admits(server, tool);
      if (scope.clock.monotonic() - startedAt >= server.timeoutMs) break;
    }
    this.#seenTools(server).askedAt = scope.clock.monotonic();
  }

  #holdBack({ slug, id }: McpServer, tool: string, digest: string | undefined): void {
    this.#heldBack({ server: slug }).inc();
    const change = JSON.stringify([id, tool, digest]);
    if (this.#warned.touch(change) !== undefined) return;
    this.#warned.set(change, true);
    this.#parts.scope.log.warn('A tool of an MCP server is not as it was approved and is held back', {
      server: slug,
      tool: tool.slice(0, 128),
      digest: digest ?? 'none',
    });
  }
}

function reason(approved: string, seen: { readonly digest: string | undefined } | undefined): string {
  if (approved === '')
    return 'it is new and held back (new_tools: hold) until it has an entry in "tools" or "allow"';
  if (seen === undefined)
    return 'the server does not list it now, so it cannot be compared with the digest that was approved';
  return `the server has changed its description or schema, and it is held back until its present digest is accepted: ${seen.digest ?? 'none, it is nested too deeply to be read'}`;
}
