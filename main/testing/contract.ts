// Types for tests of plugins. Imports nothing: the declarations of `weir-gateway/testing` are made of this file.

/** Wire formats of clients for text generation. */
export const wires = ['chat', 'completions', 'responses', 'messages', 'gemini'] as const;
/** One of them. */
export type Wire = (typeof wires)[number];

/** Answer of the provider. Texts in pieces come in these pieces when they are streamed. */
export interface ProviderAnswer {
  readonly text?: string | readonly string[];
  /** Thoughts before it. */
  readonly reasoning?: string | readonly string[];
  /** Calls of tools behind it; arguments are the text of a JSON object. */
  readonly calls?: readonly { readonly name: string; readonly arguments: string | readonly string[] }[];
  /** An error with this status instead. */
  readonly status?: number;
  /** Bytes of each chunk of a stream. Default: each event in a chunk of its own. */
  readonly chunkBytes?: number;
  /** Number of chunks of the body after which the connection breaks. */
  readonly breaksAfter?: number;
}

/** One request as the provider received it. */
export interface ProviderRequest {
  readonly wire: Wire;
  readonly path: string;
  /** By lower-case name. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Readonly<Record<string, unknown>>;
}

/** Options of a test's gateway. */
export interface GatewayOptions {
  /** The plugin's file: a URL, or a path from the working folder. It is bundled and loaded as `weir start` does it. */
  readonly plugin: string | URL;
  /** Its options, with `on_error` and `timeout_ms` among them, as in YAML. Default: none. */
  readonly options?: Readonly<Record<string, unknown>>;
  /** Further sections of the configuration: `configs`, `prices`, `security` … A section given here is taken as it is. */
  readonly config?: Readonly<Record<string, unknown>>;
  /** Variables for `${NAME}` in them. Default: none; those of the process are not seen. */
  readonly env?: Readonly<Record<string, string>>;
  /** `away`: counters and cache are on a server that does not answer. Default `here`, in this process. */
  readonly stores?: 'here' | 'away';
  /** The test: the gateway closes when it ends. Without it, call `close`. */
  readonly t?: { after(run: () => Promise<void>): void };
}

/** One request of a client, and the provider's answer to it. */
export interface Asking {
  /** Default `chat`. */
  readonly wire?: Wire;
  /** Default false. */
  readonly stream?: boolean;
  /** The message of the user. Default `Hello`. */
  readonly prompt?: string;
  /** The model's text, or the provider's whole answer. A list is a text in the pieces of a stream. */
  readonly answer?: string | readonly string[] | ProviderAnswer;
  /** The wire of the provider. Default: the client's, so that bytes pass as they are; another one is translated. */
  readonly provider?: Wire;
  /** More members of the body. */
  readonly body?: Readonly<Record<string, unknown>>;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A row of the log. */
export type LogRow = Readonly<Record<string, unknown>>;

/** The client's answer, the provider's requests and the log row. */
export interface Reply {
  readonly status: number;
  /** By lower-case name. */
  readonly headers: Readonly<Record<string, string>>;
  readonly bytes: Buffer;
  /** The JSON of an answer that was not streamed; undefined otherwise. */
  readonly json: unknown;
  /** The model's text, as a client of the wire adds it up. */
  readonly text: string;
  readonly reasoning: string;
  readonly calls: readonly { readonly name: string; readonly arguments: string }[];
  /** The sentence of a refusal or an error, in mid-stream too. */
  readonly error: string | undefined;
  /** Breaches of the client's wire: members that are missing, a stream without its end. */
  readonly problems: readonly string[];
  /** Requests that the provider received, in order; empty when the plugin answered or refused. */
  readonly provider: readonly ProviderRequest[];
  /** The request's row in the log. */
  readonly row: LogRow;
}

/** A gateway that listens on 127.0.0.1. */
export interface TestGateway {
  /** `http://127.0.0.1:PORT`. */
  readonly url: string;
  /** The owner's key; `ask` and `fetch` send it. */
  readonly key: string;
  /** Lines of the gateway's own log, as text. */
  readonly log: readonly string[];
  /** Asks and reads the answer to its end. Requests with different answers run one after the other. */
  ask(asking?: Asking): Promise<Reply>;
  /** Any other request, with the owner's key: for routes of the plugin. `path` begins with `/v1`. */
  fetch(path: string, init?: RequestInit): Promise<Response>;
  /** The sum of the metric's series that have these labels; 0 when there is none. */
  metric(name: string, labels?: Readonly<Record<string, string>>): Promise<number>;
  /** Loads the plugin again, with other options or another file. Rejects with the problem; the former plugin then still serves. */
  reload(
    change?: Pick<GatewayOptions, 'plugin' | 'options' | 'config'> | Partial<GatewayOptions>,
  ): Promise<void>;
  close(): Promise<void>;
}
