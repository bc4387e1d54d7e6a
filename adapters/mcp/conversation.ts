import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import type { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import type { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { McpAddress } from '../../core/ports/mcp.ts';
import { ConversationFetch, mcpErrors, type Surroundings } from './conversation-fetch.ts';

/** Parts of the protocol library that a handshake needs. */
type ProtocolLibrary = Awaited<ReturnType<typeof importLibrary>>;

let library: Promise<ProtocolLibrary> | undefined;

/** The library, loaded on first use: it has hundreds of modules, which would delay the start. */
export function protocolLibrary(): Promise<ProtocolLibrary> {
  library ??= importLibrary();
  return library;
}

async function importLibrary() {
  const [client, http, sse, types] = await Promise.all([
    import('@modelcontextprotocol/sdk/client/index.js'),
    import('@modelcontextprotocol/sdk/client/streamableHttp.js'),
    import('@modelcontextprotocol/sdk/client/sse.js'),
    import('@modelcontextprotocol/sdk/types.js'),
  ]);
  return {
    Client: client.Client,
    StreamableHTTPClientTransport: http.StreamableHTTPClientTransport,
    SSEClientTransport: sse.SSEClientTransport,
    McpError: types.McpError,
    methodNotFound: types.ErrorCode.MethodNotFound,
    /** By method; other members of an answer are dropped. */
    listSchemas: {
      'tools/list': types.ListToolsResultSchema,
      'prompts/list': types.ListPromptsResultSchema,
      'resources/list': types.ListResourcesResultSchema,
      'resources/templates/list': types.ListResourceTemplatesResultSchema,
    },
  };
}

type ClientTransport = StreamableHTTPClientTransport | SSEClientTransport;

/** An established conversation, for requests in it. */
export interface Spoken {
  readonly client: Client;
  readonly library: ProtocolLibrary;
  /** Negotiated version of the protocol. */
  readonly protocolVersion: string;
}

/**
 * One conversation with a server: the handshake, requests, the end of the session. Leaves nothing open, however it
 * ends.
 */
export class Conversation {
  readonly #address: McpAddress;
  readonly #around: Surroundings;
  readonly #clock: Clock;
  readonly #fetch: ConversationFetch;
  readonly #failed: Promise<never>;
  #reject: (error: GatewayError) => void = () => undefined;
  #failure: GatewayError | undefined;
  /** On the clock's monotonic time. */
  #endsAt = 0;
  /** End of the last event stream. */
  #streamEnd: GatewayError | undefined;
  #cancelGrace: () => void = () => undefined;

  /** Throws `address_refused`. */
  constructor(address: McpAddress, around: Surroundings, clock: Clock) {
    this.#address = address;
    this.#around = around;
    this.#clock = clock;
    this.#fetch = new ConversationFetch(address, around, {
      streamEnded: (error) => this.#streamEnded(error),
      exceeded: (error) => this.#fail(error),
    });
    this.#failed = new Promise((_resolve, reject) => (this.#reject = reject));
    this.#failed.catch(() => undefined);
  }

  /** `host` or `host:port`, for logs. */
  get host(): string {
    return this.#fetch.url.host;
  }

  get #isSse(): boolean {
    return this.#address.transport === 'sse';
  }

  /** Runs once per conversation. Rejects with `address_refused` or `mcp_failed`. */
  async hold<Result>(say: (spoken: Spoken) => Promise<Result>): Promise<Result> {
    const { timeoutMs } = this.#around.limits;
    this.#endsAt = this.#clock.monotonic() + timeoutMs;
    const cancelDeadline = this.#clock.after(timeoutMs, () =>
      this.#fail(mcpErrors.failed(this.host, `it was not finished within ${timeoutMs} ms`)),
    );
    try {
      return await this.#hold(await protocolLibrary(), say);
    } finally {
      this.#fetch.close();
      cancelDeadline();
      this.#cancelGrace();
    }
  }

  async #hold<Result>(library: ProtocolLibrary, say: (spoken: Spoken) => Promise<Result>): Promise<Result> {
    const transport = this.#transport(library);
    const client = new library.Client({ name: 'weir', version: '1' }, { capabilities: {} });
    let protocolVersion = '';
    const setProtocolVersion = transport.setProtocolVersion.bind(transport);
    transport.setProtocolVersion = (version) => {
      protocolVersion = version;
      setProtocolVersion(version);
    };
    try {
      await Promise.race([client.connect(transport), this.#failed]);
      return await Promise.race([say({ client, library, protocolVersion }), this.#failed]);
    } catch (error) {
      throw this.#explained(error, library);
    } finally {
      await this.#sayGoodbye(transport, protocolVersion);
      await transport.close();
    }
  }

  #transport(library: ProtocolLibrary): ClientTransport {
    const { fetch, url } = this.#fetch;
    if (this.#isSse) return new library.SSEClientTransport(url, { fetch });
    // An ended stream is not resumed: its timers would outlive the conversation.
    const never = { maxRetries: 0, initialReconnectionDelay: 1, maxReconnectionDelay: 1 };
    const reconnectionOptions = { ...never, reconnectionDelayGrowFactor: 1 };
    return new library.StreamableHTTPClientTransport(url, { fetch, reconnectionOptions });
  }

  /** Ends the session, when the server opened one. Its outcome changes nothing. */
  async #sayGoodbye(transport: ClientTransport, protocolVersion: string): Promise<void> {
    const sessionId = 'sessionId' in transport ? transport.sessionId : undefined;
    const patienceMs = Math.min(this.#around.limits.goodbyeMs, this.#endsAt - this.#clock.monotonic());
    if (sessionId === undefined || patienceMs <= 0) return;
    const headers = new Headers({ 'mcp-session-id': sessionId });
    if (protocolVersion !== '') headers.set('mcp-protocol-version', protocolVersion);
    let cancel: () => void = () => undefined;
    const patience = new Promise<void>((resolve) => {
      cancel = this.#clock.after(patienceMs, resolve);
    });
    const said = this.#fetch.fetch(this.#fetch.url, { method: 'DELETE', headers }).then(
      (response) => response.body?.cancel(),
      () => undefined,
    );
    await Promise.race([said, patience]);
    cancel();
  }

  #streamEnded(error: GatewayError | undefined): void {
    const { sent } = this.#fetch;
    const reason = error ?? mcpErrors.failed(this.host, 'it ended its stream without an answer; see its log');
    this.#streamEnd = reason;
    this.#cancelGrace();
    // The last message is still on its way through the library.
    this.#cancelGrace = this.#clock.after(this.#around.limits.graceMs, () => {
      if (this.#isSse || this.#fetch.sent === sent) this.#fail(reason);
    });
  }

  #fail(error: GatewayError): void {
    this.#failure ??= error;
    this.#reject(this.#failure);
  }

  #explained(error: unknown, library: ProtocolLibrary): GatewayError {
    if (this.#failure !== undefined) return this.#failure;
    if (GatewayError.is(error)) return error;
    const { failure, refusal } = this.#fetch;
    if (failure !== undefined) return failure;
    if (refusal !== undefined) return mcpErrors.refused(this.host, refusal);
    // With the older transport all messages use this stream.
    if (this.#isSse && this.#streamEnd !== undefined) return this.#streamEnd;
    const text = error instanceof Error ? error.message : '';
    if (text.startsWith('Endpoint origin')) {
      return mcpErrors.failed(
        this.host,
        'its stream names another host for what it is to be sent, which is refused',
      );
    }
    if (text.startsWith("Server's protocol version")) {
      return mcpErrors.failed(
        this.host,
        'it speaks a version of the protocol that is not known; see docs/mcp.md',
      );
    }
    if (error instanceof library.McpError) {
      return mcpErrors.failed(this.host, `it answered with the error ${error.code}; see its log`);
    }
    const { transport } = this.#address;
    const why = `it does not answer as an MCP server does; check the URL, and whether its transport is ${transport}`;
    return mcpErrors.failed(this.host, why);
  }
}
