import type { DialectName } from '../endpoint.ts';

/** A JSON object of unknown content. Integers beyond 2^53 may be BigInt. */
export type JsonObject = { [name: string]: unknown };

/**
 * What only one dialect can say, by its name. An encoder of that dialect says it again as it was; another one reports
 * each member as dropped (see `reportForeignExtras`).
 */
export type Extras = { readonly [dialect in DialectName]?: JsonObject };

/** Where the bytes of an image, a recording or a file are. */
export type MediaSource =
  | { readonly kind: 'url'; readonly url: string }
  /** `data` is base64 without a prefix. */
  | { readonly kind: 'base64'; readonly mediaType: string; readonly data: string }
  /** Uploaded before; the id means something to `dialect`'s host alone. */
  | { readonly kind: 'file-id'; readonly id: string; readonly dialect: DialectName }
  /** A plain text document. */
  | { readonly kind: 'text'; readonly text: string };

/** Up to here the prompt may be kept by the provider. Without `ttl`: the provider's default. */
export interface CacheMarker {
  readonly ttl?: string;
}

/** A source that the text before it rests on. Positions are UTF-16 units within the part's text. */
export interface Citation {
  readonly kind: 'url' | 'document' | 'file';
  readonly url?: string;
  readonly title?: string;
  /** The words of the source. */
  readonly quote?: string;
  readonly start?: number;
  readonly end?: number;
  /** Index of the document within the request. */
  readonly document?: number;
  readonly fileId?: string;
  /** As its own wire said it, so that the same dialect can say it again in full. */
  readonly raw?: { readonly dialect: DialectName; readonly value: JsonObject };
}

interface PartCommon {
  readonly cache?: CacheMarker;
  readonly extras?: Extras;
  /**
   * Opaque proof of the model's thinking that belongs to this part (a thinking block's signature, Gemini's thought
   * signature of a call or a text, the encrypted content of a Responses reasoning item). Goes back as it came.
   */
  readonly signature?: string;
}

export interface TextPart extends PartCommon {
  readonly type: 'text';
  readonly text: string;
  readonly citations?: readonly Citation[];
}

export interface ImagePart extends PartCommon {
  readonly type: 'image';
  readonly source: MediaSource;
  /** `low`, `high`, `auto` … as OpenAI names them. */
  readonly detail?: string;
}

export interface AudioPart extends PartCommon {
  readonly type: 'audio';
  /** A recording that was sent or made; `file-id` stands for an earlier answer's recording. */
  readonly source: MediaSource;
  readonly transcript?: string;
  readonly id?: string;
  /** Unix seconds until which `id` may be named. */
  readonly expiresAt?: number;
}

export interface FilePart extends PartCommon {
  readonly type: 'file';
  readonly source: MediaSource;
  readonly filename?: string;
  /** Of a `url`, when the sender told it (`application/pdf`, `video/mp4`). */
  readonly mediaType?: string;
  readonly context?: string;
  /** The answer shall cite it. */
  readonly citations?: boolean;
}

/** A call that the client must answer. A call that a provider runs itself is a `ProviderToolPart`. */
export interface ToolCallPart extends PartCommon {
  readonly type: 'tool-call';
  readonly id: string;
  readonly name: string;
  /** `custom`: the arguments are free text, not JSON. */
  readonly kind: 'function' | 'custom';
  /** JSON text for `function` (`{}` when there are none). */
  readonly arguments: string;
  /** The id of the item that holds the call, where a wire has both (Responses). */
  readonly itemId?: string;
}

export interface ToolResultPart extends PartCommon {
  readonly type: 'tool-result';
  readonly callId: string;
  /** Some wires name the tool instead of the call. Filled in by `nameToolResults` when it is not given. */
  readonly name?: string;
  readonly kind: 'function' | 'custom';
  readonly content: readonly (TextPart | ImagePart | FilePart | AudioPart)[];
  readonly isError?: boolean;
}

export interface ReasoningPart extends PartCommon {
  readonly type: 'reasoning';
  /** Empty when the provider keeps it to itself. */
  readonly text: string;
  /** Encrypted thinking whose text is never shown (Anthropic `redacted_thinking`, Bedrock `redactedContent`). */
  readonly redacted?: string;
  /** `text` is a summary, not the thinking itself. */
  readonly summary?: boolean;
  readonly itemId?: string;
}

export interface RefusalPart extends PartCommon {
  readonly type: 'refusal';
  readonly text: string;
}

/**
 * A tool that the provider runs itself, or its result (web search, code execution, MCP). Never a call for the client
 * to answer. `value` is the block as its own wire says it.
 */
export interface ProviderToolPart extends PartCommon {
  readonly type: 'provider-tool';
  readonly dialect: DialectName;
  readonly phase: 'call' | 'result';
  readonly id: string;
  /** `web_search`, `code_execution`, … as the provider names it. */
  readonly name: string;
  readonly value: JsonObject;
}

/** A block that only its own dialect understands. */
export interface OpaquePart extends PartCommon {
  readonly type: 'opaque';
  readonly dialect: DialectName;
  readonly value: JsonObject;
}

export type ChatPart =
  | TextPart
  | ImagePart
  | AudioPart
  | FilePart
  | ToolCallPart
  | ToolResultPart
  | ReasoningPart
  | RefusalPart
  | ProviderToolPart
  | OpaquePart;
