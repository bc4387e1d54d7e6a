import { isJsonObject, parseJson, writeJson } from '../../core/base/json.ts';
import { RecentMap } from '../../core/base/recent-map.ts';
import { readSseFrame, SseSplitter, writeSseFrame } from '../../core/base/sse.ts';
import type { Answer, StreamSource, StreamTarget } from '../../core/pipeline/answer.ts';
import { GatewayError, type JsonValue, type RequestContext } from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import { type RpcId, rpcMessages } from './messages.ts';
import type { Account } from './oauth/connections.ts';
import { elicitsUrls, type ServerLinks } from './server-link.ts';
import type { ChangeMessage, ServerAnswer } from './server-answer.ts';
import type { McpServer } from './servers.ts';
import type { Session } from './sessions.ts';

/** A tool that a virtual server shows. */
interface ChosenTool {
  readonly server: McpServer;
  /** Name at the server. */
  readonly name: string;
  /** Name for clients. */
  readonly shown: string;
  readonly description: string | undefined;
}

/** Servers, or tools of them, that are served as one. */
export interface Selection {
  /** Of the virtual server; empty for all servers. */
  readonly slug: string;
  readonly servers: readonly McpServer[];
  /** Undefined: all tools of the servers, under the slugs of these. */
  readonly chosen: readonly ChosenTool[] | undefined;
  readonly mode: 'list' | 'search';
  /** For the model, in the handshake. */
  readonly instructions: string | undefined;
}

/** One request for several servers together. */
export interface Gathering {
  readonly context: RequestContext;
  readonly caller: KeyRecord;
  readonly session: Session | undefined;
  readonly selection: Selection;
}

const maxRunning = 10_000;
const maxFrameBytes = 1_048_576;

/** Streams of what the servers of a session say by themselves, each several made into one. */
export class GatheredStreams {
  readonly #links: ServerLinks;
  readonly #changed: (server: McpServer, caller: KeyRecord) => void;
  /** By the key of the session. */
  readonly #open = new Map<string, MergedStream>();
  /** Servers of requests under way, by session and id. */
  readonly #running = new RecentMap<McpServer>(maxRunning);

  /** `changed` is called with a server whose lists have changed, and the caller whose stream says so. */
  constructor(links: ServerLinks, changed: (server: McpServer, caller: KeyRecord) => void) {
    this.#links = links;
    this.#changed = changed;
    links.onGreeted((session, server) => this.#open.get(session.key)?.attach(server));
  }

  /** The stream of a session; another one replaces it. */
  open(gathering: Gathering, session: Session): Answer {
    this.#open.get(session.key)?.end();
    const stream = new MergedStream(gathering, this.#links, {
      changed: (server) => this.#changed(server, gathering.caller),
      over: () => {
        if (this.#open.get(session.key) === stream) this.#open.delete(session.key);
      },
    });
    this.#open.set(session.key, stream);
    for (const server of gathering.selection.servers)
      if (this.#links.isBegun(session, server)) stream.attach(server);
    return { status: 200, headers: ['content-type', 'text/event-stream'], body: stream };
  }

  close(session: Session): void {
    this.#open.get(session.key)?.end();
  }

  end(): void {
    for (const stream of this.#open.values()) stream.end();
  }

  /** A user has connected an account: tells the user's clients that open URLs. One that knows no such name ignores it. */
  elicited(
    { organisationId, userId }: Pick<Account, 'organisationId' | 'userId'>,
    elicitationId: string,
  ): void {
    for (const stream of this.#open.values())
      if (stream.caller.organisationId === organisationId && stream.caller.userId === userId)
        stream.elicited(elicitationId);
  }

  /** Notes where a request runs. Returns the function that forgets it. */
  running({ key }: Session, id: RpcId | undefined, server: McpServer): () => void {
    if (id === undefined) return () => undefined;
    const name = `${key}/${JSON.stringify(id)}`;
    this.#running.set(name, server);
    return () => this.#running.delete(name);
  }

  serverOf({ key }: Session, id: JsonValue | undefined): McpServer | undefined {
    return id === undefined ? undefined : this.#running.get(`${key}/${writeJson(id)}`);
  }
}

interface StreamOwner {
  changed(server: McpServer): void;
  over(): void;
}

const listChanged = /^notifications\/(?:tools|prompts|resources)\/list_changed$/;

class MergedStream implements StreamSource {
  readonly #gathering: Gathering;
  readonly #links: ServerLinks;
  readonly #owner: StreamOwner;
  readonly #parts = new Map<McpServer, ServerAnswer | undefined>();
  #target: StreamTarget | undefined;
  #isOver = false;

  constructor(gathering: Gathering, links: ServerLinks, owner: StreamOwner) {
    this.#gathering = gathering;
    this.#links = links;
    this.#owner = owner;
  }

  get caller(): KeyRecord {
    return this.#gathering.caller;
  }

  /** Says that the user is done with a URL, where the client opens URLs. */
  elicited(elicitationId: string): void {
    if (!elicitsUrls(this.#gathering)) return;
    const message = {
      jsonrpc: '2.0',
      method: 'notifications/elicitation/complete',
      params: { elicitationId },
    };
    this.#target?.data(writeSseFrame(writeJson(message), 'message'));
  }

  pipe(target: StreamTarget): void {
    this.#target = target;
    if (this.#isOver) target.end();
  }

  resume(): void {
    for (const part of this.#parts.values()) part?.resume();
  }

  cancel(error: GatewayError): void {
    this.#target = undefined;
    this.#stop(error);
  }

  end(): void {
    const target = this.#target;
    this.#target = undefined;
    this.#stop(new GatewayError('shutting_down', 'The stream is over.'));
    target?.end();
  }

  /** Adds what this server says, where it says something by itself. */
  attach(server: McpServer): void {
    if (this.#isOver || this.#parts.has(server)) return;
    this.#parts.set(server, undefined);
    const { context, caller, session } = this.#gathering;
    this.#links
      .send({ context, caller, session, server }, { method: 'GET', body: null, lastEventId: undefined })
      .then(
        ({ head, body }) => {
          if (this.#isOver || head.contentType !== 'text/event-stream')
            return body.cancel(new GatewayError('upstream_reset', 'The server has no stream.'));
          this.#parts.set(server, body);
          this.#read(server, body);
        },
        () => this.#parts.delete(server),
      );
  }

  #read(server: McpServer, body: ServerAnswer): void {
    const change = asGathered(server);
    let hasRoom = true;
    const splitter = new SseSplitter((frame, isWhole) => {
      const { data } = readSseFrame(frame);
      const message = isWhole && data ? parseJson(data) : undefined;
      if (!isJsonObject(message)) return;
      if (listChanged.test(rpcMessages.textOf(message, 'method') ?? '')) this.#owner.changed(server);
      const changed = change(message);
      if (!(changed instanceof Promise))
        hasRoom = this.#target?.data(writeSseFrame(writeJson(changed), 'message')) ?? false;
    }, maxFrameBytes);
    body.pipe({
      data(chunk) {
        hasRoom = true;
        splitter.push(chunk);
        return hasRoom;
      },
      // The next handshake with the server attaches it again.
      end: () => void this.#parts.delete(server),
      fail: () => void this.#parts.delete(server),
    });
  }

  #stop(error: GatewayError): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#owner.over();
    for (const part of this.#parts.values()) part?.cancel(error);
    this.#parts.clear();
  }
}

/** Questions of a server get ids that name it: several servers count theirs alike. */
export function asGathered({ slug }: McpServer): ChangeMessage {
  return (message) => {
    const { id, method } = message;
    if (typeof method !== 'string' || id === undefined) return message;
    return { ...message, id: `${slug}:${writeJson(id)}` };
  };
}
