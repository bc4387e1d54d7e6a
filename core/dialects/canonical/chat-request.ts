import type { DialectName } from '../endpoint.ts';
import type { CacheMarker, ChatPart, Extras, JsonObject } from './chat-part.ts';

/**
 * One turn. Tool results are in separate messages of the role `tool`; encoders of wires without this role move them
 * into a user turn and join neighbours.
 */
export interface ChatMessage {
  readonly role: 'system' | 'developer' | 'user' | 'assistant' | 'tool';
  readonly parts: readonly ChatPart[];
  readonly name?: string;
  readonly extras?: Extras;
}

/** Purpose of a tool that the provider runs; encoders translate those that their wire has too. */
export type ProviderToolPurpose =
  | 'web-search'
  | 'web-fetch'
  | 'code-execution'
  | 'file-search'
  | 'image-generation'
  | 'computer'
  | 'mcp'
  | 'other';

export type ToolDefinition =
  | {
      readonly type: 'function';
      readonly name: string;
      readonly description?: string;
      /** JSON Schema of the arguments; absent when the caller gave none. */
      readonly parameters?: JsonObject;
      readonly strict?: boolean;
      readonly cache?: CacheMarker;
      readonly extras?: Extras;
    }
  | {
      /** Takes free text, constrained by `format` (OpenAI's grammar object) if present. */
      readonly type: 'custom';
      readonly name: string;
      readonly description?: string;
      readonly format?: JsonObject;
      readonly cache?: CacheMarker;
    }
  | {
      /** Run by the provider; `value` is the definition in the form of its own wire. */
      readonly type: 'provider';
      readonly dialect: DialectName;
      readonly purpose: ProviderToolPurpose;
      readonly value: JsonObject;
    };

export type ToolChoice =
  | { readonly type: 'auto' | 'none' | 'required' }
  | { readonly type: 'tool'; readonly name: string; readonly kind: 'function' | 'custom' }
  /** Only these may be called; `mode` says whether a call is required. */
  | { readonly type: 'allowed'; readonly mode: 'auto' | 'required'; readonly names: readonly string[] };

export type ResponseFormat =
  | { readonly type: 'text' | 'json' }
  | {
      readonly type: 'json-schema';
      readonly name?: string;
      readonly description?: string;
      readonly schema: JsonObject;
      readonly strict?: boolean;
    };

/** Reasoning settings. Absent: the provider's default. */
export interface ReasoningSettings {
  /** `none`, `minimal`, `low`, `medium`, `high`, `xhigh`, `max`: as the caller wrote it. */
  readonly effort?: string;
  readonly budgetTokens?: number;
  /** False: no reasoning. */
  readonly enabled?: boolean;
  /** The model decides the amount. */
  readonly adaptive?: boolean;
  /** Shows the reasoning: `auto`, `concise`, `detailed`; `none` hides it. */
  readonly summary?: string;
}

/** A request for the next turn of a conversation, independent of the wire. Unset members are absent. */
export interface ChatRequest {
  readonly model: string;
  readonly stream: boolean;
  readonly messages: readonly ChatMessage[];
  readonly tools: readonly ToolDefinition[];
  readonly toolChoice?: ToolChoice;
  readonly parallelToolCalls?: boolean;
  /** Visible and reasoning tokens together. */
  readonly maxOutputTokens?: number;
  readonly temperature?: number;
  readonly topP?: number;
  readonly topK?: number;
  readonly frequencyPenalty?: number;
  readonly presencePenalty?: number;
  readonly seed?: number | bigint;
  readonly stop?: readonly string[];
  /** Number of choices. */
  readonly n?: number;
  readonly logprobs?: boolean;
  readonly topLogprobs?: number;
  readonly logitBias?: JsonObject;
  readonly responseFormat?: ResponseFormat;
  readonly reasoning?: ReasoningSettings;
  readonly verbosity?: string;
  /** The end user, as named by the caller. */
  readonly user?: string;
  readonly safetyIdentifier?: string;
  readonly promptCacheKey?: string;
  readonly metadata?: JsonObject;
  readonly serviceTier?: string;
  readonly store?: boolean;
  /** `text`, `audio`, `image`. */
  readonly modalities?: readonly string[];
  /** Voice and format of a spoken answer, in the form of OpenAI's `audio` object. */
  readonly audio?: JsonObject;
  /** The client requests usage in its stream, where its wire makes that optional. */
  readonly includeUsage?: boolean;
  /** The client used the legacy form (`functions`), and is answered in it. */
  readonly legacyFunctions?: boolean;
  /** Request members that only the client's dialect knows, under its name; and the caller's `provider_options`. */
  readonly extras?: Extras;
}
