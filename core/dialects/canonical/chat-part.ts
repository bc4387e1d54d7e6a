import type { DialectName } from '../endpoint.ts';

/** A JSON object of unknown content. Integers beyond 2^53 may be BigInt. */
export type JsonObject = { [name: string]: unknown };

/**
 * Members that only one dialect knows, by its name. An encoder of that dialect repeats them unchanged; another one
 * reports each as dropped (see `reportForeignExtras`).
 */
export type Extras = { readonly [dialect in DialectName]?: JsonObject };

/** Source of the bytes of an image, a recording or a file. */
export type MediaSource =
  | { readonly kind: 'url'; readonly url: string }
  /** `data` is base64 without a prefix. */
  | { readonly kind: 'base64'; readonly mediaType: string; readonly data: string }
  /** Uploaded before; the id is valid only at `dialect`'s host. */
  | { readonly kind: 'file-id'; readonly id: string; readonly dialect: DialectName }
  /** A plain text document. */
  | { readonly kind: 'text'; readonly text: string };

/** The provider may cache the prompt up to here. Without `ttl`: the provider's default. */
export interface CacheMarker {
  readonly ttl?: string;
}

/** A source of the preceding text. Positions are UTF-16 units within the part's text. */
export interface Citation {
  readonly kind: 'url' | 'document' | 'file';
  readonly url?: string;
  readonly title?: string;
  /** Quoted text of the source. */
  readonly quote?: string;
  readonly start?: number;
  readonly end?: number;
  /** Index of the document within the request. */
  readonly document?: number;
  readonly fileId?: string;
  /** In the form of its own wire, so that the same dialect can repeat it in full. */
  readonly raw?: { readonly dialect: DialectName; readonly value: JsonObject };
}

interface PartCommon {
  readonly cache?: CacheMarker;
  readonly extras?: Extras;
  /**
   * Opaque proof of the model's thinking for this part (a thinking block's signature, Gemini's thought signature of a
   * call or a text, the encrypted content of a Responses reasoning item). Returned unchanged.
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
  /** `low`, `high`, `auto` …, OpenAI's names. */
  readonly detail?: string;
}

export interface AudioPart extends PartCommon {
  readonly type: 'audio';
  /** A sent or generated recording; `file-id` refers to an earlier answer's recording. */
  readonly source: MediaSource;
  readonly transcript?: string;
  readonly id?: string;
  /** Unix seconds at which `id` expires. */
  readonly expiresAt?: number;
}

export interface FilePart extends PartCommon {
  readonly type: 'file';
  readonly source: MediaSource;
  readonly filename?: string;
  /** Of a `url`, when the sender gave it (`application/pdf`, `video/mp4`). */
  readonly mediaType?: string;
  readonly context?: string;
  /** Whether the answer must cite it. */
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
  /** Id of the item with the call, where a wire has both (Responses). */
  readonly itemId?: string;
}

export interface ToolResultPart extends PartCommon {
  readonly type: 'tool-result';
  readonly callId: string;
  /** Some wires name the tool instead of the call. `nameToolResults` fills it in when absent. */
  readonly name?: string;
  readonly kind: 'function' | 'custom';
  readonly content: readonly (TextPart | ImagePart | FilePart | AudioPart)[];
  readonly isError?: boolean;
}

export interface ReasoningPart extends PartCommon {
  readonly type: 'reasoning';
  /** Empty when the provider hides it. */
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
 * A tool that the provider runs itself, or its result (web search, code execution, MCP). Never a call for the client to
 * answer. `value` is the block in the form of its own wire.
 */
export interface ProviderToolPart extends PartCommon {
  readonly type: 'provider-tool';
  readonly dialect: DialectName;
  readonly phase: 'call' | 'result';
  readonly id: string;
  /** `web_search`, `code_execution`, …: the provider's name. */
  readonly name: string;
  readonly value: JsonObject;
}

/** A block that only its own dialect knows. */
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
