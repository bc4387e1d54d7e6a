import type { DialectName } from '../endpoint.ts';
import type { CacheMarker, ChatPart, Extras, JsonObject } from './chat-part.ts';

/**
 * One turn. Results of tools stand in messages of the role `tool` that hold nothing else; encoders of wires that have no
 * such role move them into a user turn and join neighbours.
 */
export interface ChatMessage {
  readonly role: 'system' | 'developer' | 'user' | 'assistant' | 'tool';
  readonly parts: readonly ChatPart[];
  readonly name?: string;
  readonly extras?: Extras;
}

/** What a tool that the provider runs is for; encoders translate those that their wire has, too. */
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
      /** Its input is free text, bound by `format` (OpenAI's grammar object) when there is one. */
      readonly type: 'custom';
      readonly name: string;
      readonly description?: string;
      readonly format?: JsonObject;
      readonly cache?: CacheMarker;
    }
  | {
      /** Run by the provider; `value` is the definition as its own wire says it. */
      readonly type: 'provider';
      readonly dialect: DialectName;
      readonly purpose: ProviderToolPurpose;
      readonly value: JsonObject;
    };

export type ToolChoice =
  | { readonly type: 'auto' | 'none' | 'required' }
  | { readonly type: 'tool'; readonly name: string; readonly kind: 'function' | 'custom' }
  /** Only these may be called; `mode` says whether one must be. */
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

/** How the model shall think. Absent: the provider's default. */
export interface ReasoningSettings {
  /** `none`, `minimal`, `low`, `medium`, `high`, `xhigh`, `max`: as the caller wrote it. */
  readonly effort?: string;
  readonly budgetTokens?: number;
  /** False: no thinking at all. */
  readonly enabled?: boolean;
  /** The model decides how much. */
  readonly adaptive?: boolean;
  /** Show the thoughts: `auto`, `concise`, `detailed`; `none` hides them. */
  readonly summary?: string;
}

/** A request for the next turn of a conversation, whatever the wire. Members that nobody set are absent. */
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
  /** The end user, as the caller names him. */
  readonly user?: string;
  readonly safetyIdentifier?: string;
  readonly promptCacheKey?: string;
  readonly metadata?: JsonObject;
  readonly serviceTier?: string;
  readonly store?: boolean;
  /** `text`, `audio`, `image`. */
  readonly modalities?: readonly string[];
  /** Voice and format of a spoken answer, as OpenAI's `audio` object says it. */
  readonly audio?: JsonObject;
  /** The client wants usage in its stream, where its wire makes that a choice. */
  readonly includeUsage?: boolean;
  /** The client spoke in the legacy form (`functions`), and is answered in it. */
  readonly legacyFunctions?: boolean;
  /** Request members that only the client's dialect knows, under its name; and what the caller put under `provider_options`. */
  readonly extras?: Extras;
}
