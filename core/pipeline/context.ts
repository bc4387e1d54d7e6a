import type { JsonObject, JsonValue } from '../base/json.ts';
import type { StreamEvent } from '../dialects/stream-event.ts';
import type { AnswerText, Conversation, Dialect } from '../dialects/dialect.ts';
import type { Endpoint, EndpointId } from '../dialects/endpoint.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { CacheSettings } from '../ports/cache.ts';
import type { GuardrailSpecs } from '../ports/guardrails.ts';
import type { HeaderList } from '../ports/header-list.ts';
import type { Price } from '../ports/prices.ts';
import type { Readable } from 'node:stream';
import type { Answer, AnswerReceiver, Diversion } from './answer.ts';
import type { RequestFacts } from './facts.ts';

/** Path of a value in a JSON document. */
export type { JsonObject, JsonValue } from '../base/json.ts';
export type JsonPath = readonly (string | number)[];

/**
 * The request's body, read and parsed lazily. Nothing is read before a hook needs it; an unchanged body is sent on as
 * the very bytes received.
 */
export interface RequestBody {
  /** True when the client announced a body. */
  readonly present: boolean;
  /** True once the bytes are in memory. */
  readonly loaded: boolean;
  /** True after a call of `set` or `remove`. */
  readonly changed: boolean;
  /** Reads the whole body, within the limit. Hooks that declare `reads: ['request.…']` find it loaded. */
  load(): Promise<void>;
  /** The bytes, decoded from any content encoding, with changes spliced in. Throws before `load`. */
  readonly bytes: Buffer;
  /** The same as text. Decoded once. */
  readonly text: string;
  /**
   * Parsed JSON, or undefined when the body is empty, not JSON, or an upload that was left unread. Integers beyond 2^53
   * are BigInt, so that they keep their digits. Treat it as read-only: changes go through `set` and `remove`.
   */
  readonly json: JsonValue | undefined;
  /** Replaces or adds the value at a path; missing parents are an error. The rest of the bytes stays as it is. */
  set(path: JsonPath, value: JsonValue): void;
  /** Removes the value at a path; a missing one is ignored. */
  remove(path: JsonPath): void;
  /** The unread bytes, for passing on. Only before `load`. */
  stream(): Readable;
  /** Headers that describe the bytes as they are now (`content-encoding` when they are still encoded). */
  readonly contentEncoding: string | undefined;
  /** The bytes to send on: as received when unchanged (still compressed), else the changed ones. */
  readonly outgoing: Buffer;
}

/** A value and the place at which it is put. */
export interface Replacement {
  readonly path: JsonPath;
  readonly value: JsonValue;
}

/**
 * The body as one attempt sends it. It begins as the request's body; changes of an attempt hook reach the later attempt
 * hooks and this attempt's provider, but no other attempt. The log keeps the request's body.
 */
export interface AttemptBody extends Pick<
  RequestBody,
  'loaded' | 'changed' | 'bytes' | 'text' | 'json' | 'outgoing' | 'set' | 'remove'
> {
  /**
   * Replaces several values in one pass, which saves time with long ones. Each place must exist, and none may lie within
   * another: throws a `RangeError` otherwise.
   */
  replaceAll(replacements: readonly Replacement[]): void;
  /**
   * Counts bytes that a plugin keeps for this request, until it has settled, against `server.max_buffered_bytes`.
   * Throws `overloaded` when there is no room.
   */
  hold(bytes: number): void;
}

/** The request's value under the key; the first call makes it. */
export function onceIn<T>(
  context: Pick<RequestContext, 'get' | 'set'>,
  key: ContextKey<T>,
  make: () => T,
): T {
  let value = context.get(key);
  if (value === undefined) context.set(key, (value = make()));
  return value;
}

/** The parts of a check's subject that a check in another thread needs whole. */
export interface SubjectParts {
  /** Headers of the client. */
  readonly headers: HeaderList;
  /** The text that `json` was read from; undefined where there is none. */
  readonly jsonText: string | undefined;
}

/** The request as its hooks see it. One object per request; hooks share it. */
export interface RequestContext {
  /** The request id: `x-service-request-id`, and the id of the row in the log. */
  readonly id: string;
  /** Wall clock at acceptance, milliseconds since the epoch. */
  readonly startedAt: number;
  /** `GET`, `POST`, … */
  readonly method: string;
  /** Path below the base path, raw, beginning with `/` (`/chat/completions`). */
  readonly path: string;
  /** Path as received, raw. */
  readonly originalPath: string;
  /** Raw query with its `?`, or empty. */
  readonly query: string;
  readonly headers: HeaderList;
  /** Address of the client: that of the connection, or the one from trusted proxies (`server.trusted_proxies`). */
  readonly remoteAddress: string;
  readonly endpoint: Endpoint;
  /** Hash of the generation that serves this request. */
  readonly generation: string;
  readonly body: RequestBody;
  readonly facts: RequestFacts;
  /** Parsed JSON of the body; the same as `body.json`. */
  readonly json: JsonValue | undefined;
  /**
   * The models that the present request names in its body, form, path, query or headers; in an attempt, as it is sent.
   * Computed on each access. A body that is not loaded is `untold`.
   */
  readonly models: NamedModels;
  /** The texts of the conversation, decoded through the client's dialect on first use. */
  readonly conversation: Conversation;
  /** A header by lower-case name. */
  header(name: string): string | undefined;
  /** A header under the configured prefix or one of its aliases: `service('api-key')` reads `x-service-api-key`. */
  service(name: string): string | undefined;
  /** Names of the request's gateway headers without their prefixes: `api-key`, `provider`, … */
  serviceNames(): readonly string[];
  /**
   * Sets a header of the request, in `admit` and `request` hooks, as if the client had sent it: for later hooks, routing,
   * the log and, by the rules for client headers, the provider; undefined removes it. `x-service-config` and the like
   * steer the request. Trace and metadata are read before: `facts` has them. Throws for invalid headers, for those that
   * the gateway sets itself, and once there is an attempt.
   */
  setHeader(name: string, value: string | undefined): void;
  get<T>(key: ContextKey<T>): T | undefined;
  set<T>(key: ContextKey<T>, value: T): void;
  /** Adds a header to whatever answer leaves, refusals included. */
  addResponseHeader(name: string, value: string): void;
  /**
   * The same for a header that each attempt sets again: replaces every header that was added under this very name;
   * undefined only removes them.
   */
  replaceResponseHeader(name: string, value: string | undefined): void;
  /**
   * Turns the request into another one: for a plugin that expands a shorter request before any other code reads it.
   * `path` is below the base path; `body` replaces the received one, which must be JSON.
   */
  become(path: string, body: JsonObject): void;
  /**
   * Answers the client with 202 and no body at once; the answer itself, also that of an error, goes to `receiver`, and the
   * request settles when that has it. For `request` hooks that have read the body, once.
   */
  divert(receiver: AnswerReceiver): Diversion;
  /** Runs when the client leaves before its answer is complete. Returns the function that unregisters. */
  onAbort(run: () => void): () => void;
  /** Set when the client has left. */
  readonly aborted: boolean;
}

/** The answer as `response` hooks see it: complete, before it leaves. */
export interface ResponseView {
  status: number;
  readonly headers: HeaderList;
  readonly bytes: Buffer;
  readonly text: string;
  /** Parsed JSON, or undefined. Read-only; changes go through `set` and `remove`. */
  readonly json: JsonValue | undefined;
  /**
   * The model's output, decoded through the client's dialect on first use: texts, thoughts, and the arguments of tool
   * calls, in the order of the answer. Empty for errors, embeddings and other answers that no model has written.
   */
  readonly texts: readonly AnswerText[];
  readonly source: 'gateway' | 'provider';
  /** True when this answer was collected from a stream (`stream: hold`). */
  readonly streamed: boolean;
  set(path: JsonPath, value: JsonValue): void;
  remove(path: JsonPath): void;
  /**
   * Replaces one of `texts`. Members that repeat the text, count places in it or prove it (log probabilities, sources, a
   * thought's signature) are removed; every other byte stays. Tool arguments must be a JSON object on wires that keep them
   * as one: throws `upstream_invalid` otherwise.
   */
  setText(part: AnswerText, text: string): void;
  /** The same for all of them in one pass: `change` is called with each and returns its new text. */
  setTexts(change: (part: AnswerText) => string): void;
  setHeader(name: string, value: string): void;
  removeHeader(name: string): void;
}

export interface ResponseContext extends RequestContext {
  readonly response: ResponseView;
}

/** One attempt at one target. */
export interface AttemptContext extends RequestContext {
  readonly attempt: AttemptView;
  /** The wire format of the client's request and answer. */
  readonly dialect: Dialect;
}

export interface AttemptView {
  /** 1 for the first. */
  readonly number: number;
  readonly provider: string;
  readonly aiService: string;
  readonly model: string;
  /**
   * The deployment that answers at this target, as its settings or the integration's list of models say; empty for
   * none.
   */
  readonly deployment: string;
  readonly body: AttemptBody;
  /**
   * A digest of the request's destination and credential: provider, address, the headers that the gateway adds, the
   * settings of the provider, the headers that are forwarded by name, and the caller's own credential where that is
   * passed on. Equal for equal targets; reveals nothing else.
   */
  readonly target: string;
  /** How strictly the answer keeps to the client's wire, and how request parts that the target's wire lacks are handled. */
  readonly terms: string;
  /** False where the client asks for more than its wire has (`strict-open-ai-compliance: false`). */
  readonly isStrict: boolean;
  /**
   * The client's headers that may affect the provider's answer, as name (lower-case) and value in turn: not those that
   * describe client, connection or trace, no credentials, none of the gateway's own.
   */
  readonly clientHeaders: HeaderList;
  /** Cache settings of the config that was used; undefined when it has none. */
  readonly cache: CacheSettings | undefined;
  /** Guardrails of the request and its answer, from config, headers and defaults; undefined for none. */
  readonly guardrails: GuardrailSpecs | undefined;
  /**
   * Whether this operation is translated: the target takes it in another wire than the client's. False also where the
   * target has no such operation.
   */
  translates(operation: EndpointId): boolean;
  /**
   * Runs when nothing will be served from this attempt: it failed and another one follows, or it lost a race. Not when
   * its answer leaves, nor when the request ends with it (`settled` reports that).
   */
  onAbandon(run: () => void): void;
}

/** How a request ended. */
export interface Outcome {
  readonly kind: 'completed' | 'refused' | 'failed' | 'cancelled';
  /** The status that the client saw (499 when it left before). */
  readonly status: number;
  readonly error: GatewayError | undefined;
  /** Milliseconds from acceptance to the last byte; to the beginning of a stream that goes on until one side leaves. */
  readonly latencyMs: number;
  /**
   * The request's body without the changes of attempts, decoded from any content encoding, when it was held in memory.
   */
  readonly requestBody: Buffer | undefined;
  /** The answer's bytes, when a plugin asked to keep them (`keeps: ['response.body']`), bounded. */
  readonly responseBody: Buffer | undefined;
  readonly responseTruncated: boolean;
  /** `requestBody` is known to be one JSON object or list. */
  readonly requestIsJson: boolean;
  /** `responseBody` is known to be the whole answer and one JSON object. */
  readonly responseIsJson: boolean;
  readonly responseContentType: string;
  readonly responseContentEncoding: string;
  /** Computed on first use. */
  readonly price: Price;
}

export type MaybePromise<T> = T | Promise<T>;
export type HookResult = MaybePromise<void | undefined | Answer>;

/** Passes an event on. Not calling it drops the event; calling it with another one replaces it. */
export type Emit = (event: StreamEvent) => void;

export interface StreamTap {
  /** May return a promise: later events wait and the provider is paused. Throwing refuses the rest. */
  event(event: StreamEvent, emit: Emit): MaybePromise<void>;
  /** After the last event, and before the end marker of the wire; emit all text that was held back now. */
  end?(emit: Emit): MaybePromise<void>;
}

/** All models that a request names. */
export interface NamedModels {
  /** Every name that some provider may take for a model to run; the main one first. */
  readonly names: readonly string[];
  /** Why the request may run another model than these, as the end of a sentence; undefined when it cannot. */
  readonly untold: string | undefined;
  /** All of the request could be read, and it names none. */
  readonly isUnnamed: boolean;
}

/** The parsed body, for a change. Throws `invalid_json` when there is none. */
export function requireJson(json: JsonValue | undefined): JsonValue {
  if (json !== undefined) return json;
  throw new GatewayError('invalid_json', 'The request body is no valid JSON. Send a JSON object.');
}

/** A typed slot of a request's context. Make one with `defineKey`, share it by importing it. */
export interface ContextKey<T> {
  readonly name: string;
  /** Only for the type checker; never present. */
  readonly __type?: T;
}

/** Declares a slot. The name is for messages; identity is the object itself. */
export function defineKey<T>(name: string): ContextKey<T> {
  return Object.freeze({ name });
}

/** Reports each settled request to another system. */
export interface RequestTracer {
  /** `acceptedAt` is the monotonic clock at acceptance, milliseconds. Never waits and never throws. */
  settled(context: RequestContext, outcome: Outcome, acceptedAt: number): void;
  /** Sends the queue, within the deadline (milliseconds), and ends. */
  close(deadlineMs: number): Promise<void>;
}
