/**
 * `weir-gateway/plugin`: everything that a plugin author imports.
 * @module
 */
import type { Static, TSchema } from 'typebox';
import type { Features } from '../access/features.ts';
import type { RouteDefinition } from './define-route.ts';
import type { Analytics } from '../ports/analytics.ts';
import type { Clock } from '../ports/clock.ts';
import type { Cache, Embeddings, VectorIndex } from '../ports/cache.ts';
import type { Budgets } from '../ports/budgets.ts';
import type { ConfigFileEditor } from '../ports/config-file.ts';
import type { Counters, Limiter } from '../ports/counters.ts';
import type { LogExports } from '../ports/exports.ts';
import type { GuardedFetch } from '../ports/transport.ts';
import type { CredentialFactory } from '../ports/credentials.ts';
import type { Directory, KeyRecord } from '../ports/directory.ts';
import type { McpClients } from '../ports/mcp.ts';
import type { Journal } from '../ports/journal.ts';
import type { Log } from '../ports/log.ts';
import type { OwnRequests } from '../ports/own-requests.ts';
import type { Metrics } from '../ports/metrics.ts';
import type { Prices } from '../ports/prices.ts';
import type { Resources } from '../ports/resources.ts';
import type { SecretBox, SecretManagers } from '../ports/secret-managers.ts';
import type { Router } from './router.ts';
import type { Tokens } from '../ports/oauth.ts';
import type { Dialect } from '../dialects/dialect.ts';
import type { DialectName, EndpointId } from '../dialects/endpoint.ts';
import type { Guards } from '../organisation/guardrails.ts';
import type { ConfiguredMcpServers } from '../organisation/mcp-virtual-servers.ts';
import type { CheckPhase } from '../ports/guardrails.ts';
import type { Answer } from './answer.ts';
import type { PluginBreakerSettings } from './plugin-breaker.ts';
import type {
  AttemptContext,
  ContextKey,
  HookResult,
  JsonPath,
  JsonValue,
  MaybePromise,
  Outcome,
  Replacement,
  RequestContext,
  ResponseContext,
  StreamTap,
} from './context.ts';

export { Type, type Static } from 'typebox';
export { GatewayError } from '../errors/gateway-error.ts';
export { linearPattern, type LinearPattern } from '../base/linear-pattern.ts';
export { redactor, type Redactor, type RedactorRule } from './redactor.ts';
export { defineKey, type ContextKey } from './context.ts';
export { judged, providerCall } from './keys.ts';
export type { ToldCall } from '../redaction/provider-call.ts';
export { namedModels, type NamingRequest } from './named-models.ts';
export { defineMediaRoute, defineRoute } from './define-route.ts';
export type { Answer } from './answer.ts';
export type { CheckPhase } from '../ports/guardrails.ts';
export type { AnswerText } from '../dialects/dialect.ts';
export type { StreamEvent } from '../dialects/stream-event.ts';
export type * from './context.ts';

/**
 * The version of this contract. It grows when a part that plugins rely on is removed or changes its meaning; additions
 * do not make a new one.
 */
export const pluginApi = 1;

/** Parts of requests and answers that a plugin reads or changes. */
export type Part =
  'request.body' | 'request.json' | 'request.text' | 'response.body' | 'response.json' | 'response.text';

/** A plugin's needs from the pipeline; the loader refuses a pipeline that cannot meet them. */
export interface Capabilities {
  /**
   * Parts that its hooks look at. `request.body`: the bytes are in memory before the `request` hook runs.
   * `request.json`, `request.text`: the same, except for uploads (multipart, audio, image, video, octet-stream) to
   * endpoints that are not modelled; these stay unread, and `context.json` is undefined.
   */
  readonly reads?: readonly Part[];
  /** Parts that it may change. */
  readonly changes?: readonly Part[];
  /**
   * Handling of streamed answers: `ignore` them on purpose, `observe` events, judge a `window` of them, or
   * `hold` the stream, run `response` on the whole and replay it (done by the core). Required for a plugin
   * that has a `response` hook.
   */
  readonly stream?: 'ignore' | 'observe' | 'window' | 'hold';
  /** It judges or changes requests or answers: it does not run while the operator has switched guardrails off. */
  readonly guardrail?: true;
  /** Its `request` hook always answers: no plugin behind it runs a request hook. */
  readonly answers?: boolean;
  /**
   * Its `create` returns `routes`: they are served by the first pipeline with `match: { routes: contributed }`, wherever
   * the plugin is listed.
   */
  readonly routes?: true;
  /** Context that it needs an earlier plugin to provide: `key` is provided by `auth`. */
  readonly needs?: readonly 'key'[];
  readonly provides?: readonly 'key'[];
  /** Asks the pipeline to keep the answer's bytes for `settled`, up to this many. */
  readonly keepsResponseBytes?: number;
  /** Default bound of one hook call in milliseconds; 0 for none. Default 30000. */
  readonly timeoutMs?: number;
  /**
   * Stops calling a hook for a while when it keeps failing, unless the operator's settings differ: after
   * `failureThreshold` failures within a minute (default 5) for `cooldownMs` (default 30000). `whenOpen`: requests go on
   * without it (`bypass`) or are refused; by default as `on_error` says. Default: no breaker.
   */
  readonly breaker?: true | Partial<PluginBreakerSettings>;
}

/** Services of a plugin instance. Everything registered here is undone when its generation retires. */
export interface Scope {
  readonly log: Log;
  readonly clock: Clock;
  readonly counters: Counters;
  /** Admits or refuses requests by all limits that count them. */
  readonly limiter: Limiter;
  /** Consumption of usage limits. */
  readonly budgets: Budgets;
  readonly cache: Cache;
  /** Fetches URLs that requests name. */
  readonly guardedFetch: GuardedFetch;
  readonly metrics: Metrics;
  readonly prices: Prices;
  readonly directory: Directory;
  /** For secrets of records. */
  readonly secrets: SecretBox;
  /** Sends a plugin's own model requests in the name of a caller. */
  readonly ownRequests: OwnRequests;
  /** For requests that need more than a header to be authorized: signatures of AWS, tokens of Microsoft Entra. */
  readonly credentials: CredentialFactory;
  /** Reads secrets from external secret managers. */
  readonly secretManagers: SecretManagers;
  /** Connects to MCP servers (Model Context Protocol) that a record names. */
  readonly mcp: McpClients;
  /** The MCP servers of the configuration: a plugin that serves them says so, for records that name them. */
  readonly mcpServers: ConfiguredMcpServers;
  readonly journal: Journal;
  readonly analytics: Analytics;
  /** Administered records; undefined when `storage.resources` is `none:`. */
  readonly resources: Resources | undefined;
  /** Logs as files; undefined when `storage.resources` is `none:`. */
  readonly exports: LogExports | undefined;
  /** The configuration file, for editing; undefined where this process does not read it from a file. */
  readonly configFile: ConfigFileEditor | undefined;
  /** Feature switches of the operator. */
  readonly features: Features;
  /** All checks that guardrails can use. */
  readonly guards: Checks;
  /** The wire formats that clients speak, by name. */
  readonly dialects: ReadonlyMap<DialectName, Dialect>;
  readonly router: Router;
  /** Verifies JSON Web Tokens. */
  readonly tokens: Tokens;
  /** Vectors of texts, made by a configured provider. */
  readonly embeddings: Embeddings;
  /** Vectors of answered questions; all plugins of all generations share it. */
  readonly vectors: VectorIndex;
  /** Prefix of the gateway's own headers, lower-case, without the dash behind it: `x-service`. */
  readonly headerPrefix: string;
  /** Prefix of service keys (`wk_`): it tells them from provider keys in an Authorization header. */
  readonly keyPrefix: string;
  /** Where the API begins (`server.base_path`): `/v1`, or `/`. */
  readonly basePath: string;
  /** Public address of this gateway (`server.public_url`), for links; undefined when it is not set. */
  readonly publicUrl: string | undefined;
  /** Runs on retirement, last registered first. */
  onDispose(dispose: () => MaybePromise<void>): void;
  /** Like the global one; ends with the generation, and a throw is logged with the plugin's name. */
  setTimeout(run: () => MaybePromise<void>, ms: number): () => void;
  setInterval(run: () => MaybePromise<void>, ms: number): () => void;
}

/** The hooks of one plugin instance; all optional. Sync or async. */
export interface Hooks {
  /**
   * Once per client request, before every request hook, with no body read and no caller known; never for administration
   * routes. Return nothing to let it in, a promise to let it wait, or throw a `GatewayError` to refuse.
   */
  admit?(context: RequestContext): MaybePromise<void>;
  /** Once per client request. Return nothing to go on, an answer to answer, or throw a `GatewayError` to refuse. */
  request?(context: RequestContext): HookResult;
  /** Once per upstream attempt. */
  attempt?(context: AttemptContext): HookResult;
  /**
   * The provider's answer to an attempt, before any `response` hook or tap and with its body unread, in reverse file
   * order. Return another answer to replace it (a stream may be wrapped, and must then be passed on), or nothing. The
   * answer waits for a promise. Not called when the attempt brought no answer, or when an `attempt` hook answered instead.
   */
  attempted?(context: AttemptContext, answer: Answer): MaybePromise<Answer | undefined>;
  /** A complete answer, before it leaves. */
  response?(context: ResponseContext): MaybePromise<void>;
  /** Once per streamed answer; returns its tap. */
  stream?(context: RequestContext): StreamTap | undefined;
  /**
   * Before each request to a provider: whether `settled` wants to know of it, as `context.get(providerCall)`, which is kept
   * in memory until then. Default: no.
   */
  keepsCall?(context: RequestContext): boolean;
  /** Exactly once, after the last byte. Never delays the client. */
  settled?(context: RequestContext, outcome: Outcome): MaybePromise<void>;
  /**
   * No new request will come: the configuration was replaced, or the gateway ends. Use it to end long-running answers;
   * the scope's services stay until the last of them has ended.
   */
  retiring?(): void;
  /** Administration endpoints. */
  routes?: readonly RouteDefinition[];
}

/** Fault of an option. */
export interface OptionFault {
  /** JSON pointer below the plugin's options: `/rules/0/expression`; empty for the options together. */
  readonly path: string;
  /** One sentence with the fault and the remedy, without a final period. */
  readonly message: string;
}

export interface PluginDefinition<S extends TSchema = TSchema> {
  /** Kebab-case; the key in YAML and the label in logs and metrics. */
  readonly name: string;
  /** The version of the contract that it is written for (`pluginApi` when it was written). Default 1. */
  readonly apiVersion?: number;
  /** One sentence for the generated reference. */
  readonly description?: string;
  /** Schema of the options; unknown options are refused with a suggestion. */
  readonly schema?: S;
  /** Checks that guardrails can use wherever the plugin is listed. */
  readonly offers?: readonly AnyCheck[];
  readonly capabilities?: Capabilities;
  /**
   * Mistakes in options that a schema cannot find: an expression that does not compile, an option that another one needs.
   * Called with options that are valid otherwise, by `weir check` too: start nothing here. Returns all faults.
   */
  check?(options: Static<S>): MaybePromise<readonly OptionFault[]>;
  /** Once per generation. Throwing keeps the old generation serving. */
  create(options: Static<S>, scope: Scope): MaybePromise<Hooks>;
}

/** A definition with its options type erased, as the loader handles it. */
export type AnyPlugin = PluginDefinition<TSchema>;

/**
 * Declares a plugin.
 * @example
 * export default definePlugin({
 *   name: 'deny-pattern',
 *   schema: Type.Object({ pattern: Type.String() }),
 *   capabilities: { reads: ['request.text'] },
 *   create({ pattern }) {
 *     const expression = linearPattern(pattern, 1000);
 *     if (typeof expression === 'string') throw new Error(`The pattern ${expression}.`);
 *     return {
 *       request(context) {
 *         if (context.conversation.texts.some((part) => expression.test(part.text)))
 *           throw new GatewayError('hooks_failed', 'The prompt matches a denied pattern.');
 *       },
 *     };
 *   },
 * });
 */
export function definePlugin<S extends TSchema>(plugin: PluginDefinition<S>): PluginDefinition<S> {
  return plugin;
}

/** One text of a subject, wherever its wire keeps it. */
export interface SubjectText {
  /** `user`, `system`, `assistant`, `tool` … of a request; `assistant` of an answer. */
  readonly role: string;
  /** A refusal of the model is a `text`; arguments of a tool call are JSON. */
  readonly type: 'text' | 'reasoning' | 'tool-arguments';
  readonly text: string;
  /** Place of the string in the JSON. */
  readonly path: JsonPath;
  /** Index of the choice of an answer; 0 in a request. */
  readonly choice: number;
}

/** Subject of one check: a request as this attempt sends it, or a complete answer. */
export interface CheckSubject {
  /** Of the request, as the log has it. */
  readonly id: string;
  readonly phase: CheckPhase;
  readonly endpoint: EndpointId;
  /** As addressed: a name, or a slug with its `@`. */
  readonly provider: string;
  /** The kind of provider: `anthropic`. */
  readonly service: string;
  /** The model that the request names; empty for none. */
  readonly model: string;
  /** All texts, oldest first. A check that searches looks at all of them. */
  readonly texts: readonly SubjectText[];
  /**
   * The text for checks of counts and endings: the last message of a request (its parts joined by line feeds), the first
   * choice of an answer. Empty for none.
   */
  readonly text: string;
  /** The body as JSON; undefined when it is not JSON. Read-only. */
  readonly json: JsonValue | undefined;
  /** Of the request. */
  readonly metadata: Readonly<Record<string, string>>;
  /** For a request, itself; for an answer, its request. As the present attempt sends it. */
  readonly request: Pick<CheckSubject, 'texts' | 'text' | 'json'>;
  /** The key that the request came with; undefined where the pipeline asks for none. */
  readonly caller: KeyRecord | undefined;
  readonly traceId: string;
  readonly spanId: string;
  /** A header of the client by lower-case name. */
  header(name: string): string | undefined;
  /** Aborts when the check is out of time, or the client has left. Pass it to every call that the check awaits. */
  readonly signal: AbortSignal;
  /** Replaces the texts: `change` is called with each. For checks that declare `changes`. */
  setTexts(change: (text: SubjectText) => string): void;
  /** Replaces or adds a value of the JSON. For checks that declare `changes`. */
  set(path: JsonPath, value: JsonValue): void;
  /** Replaces several values in one pass, for long ones; each place must exist. For checks that declare `changes`. */
  replaceAll(replacements: readonly Replacement[]): void;
  /** The request's value under the key, kept for its later attempts too; the first call makes it. */
  once<T>(key: ContextKey<T>, make: () => T): T;
  /** Counts bytes that are kept for this request against `server.max_buffered_bytes`. Throws `overloaded` when there is no room. */
  hold(bytes: number): void;
}

/** Result of a check. */
export interface CheckResult {
  /** `skipped`: there was nothing to judge; `data` says why. */
  readonly verdict: 'passed' | 'failed' | 'skipped';
  /** Finding and reason, for the client and the log; never more of the text than needed. */
  readonly data?: JsonValue;
}

/** Judges one subject. Throwing means that it could not judge: `on_error` of the check decides then. */
export type Judge = (subject: CheckSubject) => MaybePromise<CheckResult>;

/** A check: one question that guardrails can ask of a request or an answer. */
export interface CheckDefinition<S extends TSchema = TSchema> {
  /** Its name in guardrails: `default.contains`, `acme.tone`. */
  readonly id: string;
  /** Other ids for the same. */
  readonly aliases?: readonly string[];
  /** One sentence for the generated reference. */
  readonly description: string;
  /** Schema of the parameters; unknown ones are refused with a suggestion. */
  readonly schema: S;
  /** Where it can be asked. */
  readonly phases: readonly CheckPhase[];
  /** It may change its subject. */
  readonly changes?: true;
  /** Default bound of one judgement in milliseconds. Default 5000. */
  readonly timeoutMs?: number;
  /** Checks of the parameters that a schema cannot express. Start nothing here. Returns all faults. */
  check?(parameters: Static<S>): readonly OptionFault[];
  /**
   * Present where a streamed answer can be judged as it comes: how many UTF-16 units of text one finding spans at most.
   * The stream holds back as many.
   */
  reach?(parameters: Static<S>): number;
  /** Once for each place that names the check. */
  create(parameters: Static<S>, scope: Scope): Judge;
}

/** A definition with its parameters' type erased. */
export type AnyCheck = CheckDefinition<TSchema>;

/**
 * Declares a check.
 * @example
 * export const shortAnswers = defineCheck({
 *   id: 'acme.short',
 *   description: 'Fails for long answers.',
 *   phases: ['output'],
 *   schema: Type.Object({ most: Type.Integer({ minimum: 1 }) }, { additionalProperties: false }),
 *   create: ({ most }) => ({ text }) => (text.length <= most ? passed() : failed({ length: text.length, most })),
 * });
 */
export function defineCheck<S extends TSchema>(check: CheckDefinition<S>): CheckDefinition<S> {
  return check;
}

/** The check has no finding. */
export function passed(data?: JsonValue): CheckResult {
  return data === undefined ? { verdict: 'passed' } : { verdict: 'passed', data };
}

/** The check has a finding. */
export function failed(data?: JsonValue): CheckResult {
  return data === undefined ? { verdict: 'failed' } : { verdict: 'failed', data };
}

/** The check had nothing to judge. */
export function skipped(reason: string): CheckResult {
  return { verdict: 'skipped', data: { explanation: reason } };
}

/** `passed` when `holds` is true; with `not: true`, when it is false. */
export function verdictOf(holds: boolean, not: boolean | undefined, data?: JsonValue): CheckResult {
  return holds !== (not === true) ? passed(data) : failed(data);
}

/** The checks that guardrails of this gateway can use. */
export interface Checks extends Guards {
  /** By id or alias; undefined when there is none. */
  definition(id: string): AnyCheck | undefined;
}
