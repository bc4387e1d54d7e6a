import type { Answer } from './answer.ts';
import type { ExpectedPrice } from './estimated-usage.ts';
import type { JsonValue, MaybePromise, RequestContext } from './context.ts';
import type { GatewayError } from '../errors/gateway-error.ts';
import type { DialectName } from '../dialects/endpoint.ts';
import type { Quirks } from '../dialects/host-facts.ts';
import type { Credentials } from '../ports/credentials.ts';
import type { LimitCharges } from '../access/limit-charges.ts';
import type { PricedModels } from '../ports/prices.ts';
import type { ProviderTable } from '../providers/provider-row.ts';
import type { CheckPhase, GuardrailSpecs } from '../ports/guardrails.ts';
import type { HeaderList } from '../ports/header-list.ts';
import type { KeyRecord } from '../ports/directory.ts';
import type { RecordPlace } from '../ports/records.ts';
import type { ToolCall } from './tool-calls.ts';

/** Provider and credential of a request. Holds a secret: never log it whole. */
export interface Target {
  /** As addressed. */
  readonly provider: string;
  readonly service: string;
  readonly dialect: DialectName;
  readonly origin: string;
  /** Path of the base URL without a trailing slash: `/v1`. */
  readonly basePath: string;
  /** The request named the host, and it is not in `security.trusted_hosts`: public addresses only. */
  readonly guarded: boolean;
  /** Headers that carry the credential and the row's own headers, flat. */
  readonly headers: readonly string[];
  /** The caller's own `authorization` is passed on. */
  readonly passAuthorization: boolean;
  readonly usageInStream: 'always' | 'on_request' | 'never';
  /** Wire formats that the host serves beside its own. */
  readonly alsoSpeaks: readonly DialectName[];
  readonly quirks: Quirks;
  /** Fields of the provider that are not secret, by name: `azure_api_version`, `vertex_region` … */
  readonly settings: Readonly<Record<string, string>>;
  /** Signs each request, or fetches its token. */
  readonly credentials: Credentials | undefined;
  /** A digest of the secrets that `credentials` are made of; empty without any. */
  readonly credentialDigest: string;
  /** The signature covers the body, which therefore has to be in memory. */
  readonly signsBody: boolean;
  /** Handling of request parts that its wire cannot express; undefined leaves it to the plugin's option. */
  readonly onDrop: 'report' | 'refuse' | undefined;
  /** Models of an integration; absent for all other targets. */
  readonly models?: TargetModels | undefined;
  /** Limits that count each attempt at it; absent for none. */
  readonly limits?: LimitCharges | undefined;
}

/** The models of a stored provider. */
export interface TargetModels {
  /** Not every model may be asked for. */
  readonly isRestricted: boolean;
  /** Throws `model_not_allowed`. */
  require(model: string): void;
  /**
   * The `model_not_allowed` for a request that may run an unknown model; `why` ends its first sentence.
   */
  refusalOfUntold(why: string): GatewayError;
  /** Prices of the model's tokens; the same object each time. Undefined: the provider's own prices. */
  pricesOf(model: string): PricedModels | undefined;
  /**
   * Another target that serves this model instead of `target`, if any. Throws the error that keeps it from being made.
   */
  targetOf(model: string, target: Target): Target | undefined;
  /** The models that may be asked for, when they are listed one by one. */
  readonly listed: readonly string[];
}

/** How an attempt at a target is made. Times are milliseconds, 0 for no bound. */
export interface AttemptOptions {
  readonly connectTimeoutMs: number;
  readonly headTimeoutMs: number;
  readonly idleTimeoutMs: number;
  /** The whole attempt, streams to their last byte. */
  readonly requestTimeoutMs: number;
  /** From sending until the first token. */
  readonly firstTokenTimeoutMs: number;
  readonly maxAnswerBytes: number;
  /** Refuse members that only some providers understand (`thinking`), unless the request's header says otherwise. */
  readonly strictOpenAiCompliance: boolean;
  /** Handling of request parts that a target's wire cannot express, unless config or target say otherwise. */
  readonly onDrop: 'report' | 'refuse';
  /** The config's setting, which takes precedence. */
  readonly configOnDrop: 'report' | 'refuse' | undefined;
  /** Lower-case names of client headers that reach the provider in any case, and of those that never do. */
  readonly forwardHeaders: readonly string[];
  readonly sensitiveHeaders: readonly string[];
}

/** Options of the `provider` plugin that the router needs. */
export interface RouteOptions extends AttemptOptions {
  /** Provider to use when the request names none. */
  readonly defaultProvider: string | undefined;
  /** Slug of the config to use when the request names neither a config nor a provider. */
  readonly defaultConfig: string | undefined;
}

/** A config that is to be saved. */
export interface ConfigDraft {
  /** JSON. */
  readonly text: string;
  /** Its own slug, by which other configs may refer to it. */
  readonly slug: string;
  /** Whose configs and providers it may name. */
  readonly place: RecordPlace;
}

/** A request that is only thought of, for an explanation. */
export interface SampleRequest {
  readonly method: string;
  /** As a client sends it, with its query: `/v1/chat/completions`. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** JSON, or a text that is sent unchanged. */
  readonly body: JsonValue | undefined;
}

/** The way of a request through a config, as if every attempt failed. It holds no credential and no host. */
export interface PlanDocument {
  /** What each branch decided, in the order of their decisions. */
  readonly branches: {
    /** Place in the config: `config.targets[1]`. */
    readonly path: string;
    readonly mode: string;
    readonly reason?: string | undefined;
    /** Another request may be decided differently. */
    readonly random: boolean;
    readonly candidates: {
      readonly path: string;
      readonly name?: string | undefined;
      /** Place in the order of trying, from 1; absent: not tried. */
      readonly order?: number | undefined;
      readonly score?: number | undefined;
      /** Probability of being tried first, 0 to 1. */
      readonly chance?: number | undefined;
      readonly skipped?: string | undefined;
    }[];
  }[];
  /** Targets in the order of trying. Milliseconds; null: the options of the plugin `provider` apply. */
  readonly tries: {
    readonly option: string;
    readonly name: string | null;
    /** Empty when the request names it. */
    readonly provider: string;
    readonly model: string;
    readonly params: {
      readonly set: Record<string, JsonValue>;
      readonly removed: string[];
    };
    readonly request_timeout_ms: number | null;
    readonly first_token_timeout_ms: number | null;
    readonly idle_timeout_ms: number | null;
    readonly retry: {
      readonly attempts: number;
      readonly on_status_codes: number[];
      readonly use_retry_after_headers: boolean;
    } | null;
    readonly cache: {
      readonly mode: string;
      readonly max_age_ms: number | null;
      readonly threshold: number | null;
    } | null;
    readonly breaker: { readonly failure_threshold: number; readonly cooldown_ms: number } | null;
    readonly hedge: { readonly after_ms: number; readonly others: string[] } | null;
    /** The first rule that names the status of a failure applies; without one the failure is the answer. */
    readonly on_failure: {
      /** Null: every status but 2xx. */
      readonly statuses: number[] | null;
      readonly by: string;
      readonly then: string;
    }[];
    /** Why there would be no attempt. */
    readonly problem: string | null;
  }[];
  readonly refused: { readonly status: number; readonly code: string; readonly message: string } | null;
  /** In sentences. */
  readonly assumptions: string[];
}

/** The credential of a stored provider, for a request beside the routes of models. */
export interface WantedCredential {
  /** Of the provider in its workspace. */
  readonly slug: string;
  /** Where it is to be sent: `https://api.example.com`. */
  readonly origin: string;
  readonly place: Pick<KeyRecord, 'organisationId' | 'workspaceId'>;
}

/** Decides where a request goes and carries it there. Only the `provider` plugin uses it. */
export interface Router {
  /**
   * Carries the request to the target, or through the plan, that its headers, its model (`@slug/model`) or the options
   * name, runs the attempt hooks for every attempt, and returns the answer's head with its body still flowing when
   * streamed. Throws the refusal or failure of the request: `provider_missing`, `config_unknown`, `upstream_unreachable` …
   */
  answer(context: RequestContext, options: RouteOptions): MaybePromise<Answer>;
  /**
   * Expected price of the request's tokens: at the provider that its headers, its model or its config name, else the
   * default of its pipeline; undefined where none is named. Never throws, and waits for nothing: a body that has not been
   * read is left out.
   */
  expectedPrice(context: RequestContext): ExpectedPrice | undefined;
  /**
   * A sentence that says so when there is no config of this name, in the configuration or saved in the place (default:
   * saved ones do not count); undefined when there is one.
   */
  missingConfig(slug: string, place?: RecordPlace): string | undefined;
  /** Why the guardrail of this name cannot judge requests or answers in the place; undefined when it can. */
  unusableGuardrail(name: string, phase: CheckPhase, place: RecordPlace): string | undefined;
  /**
   * Guardrails of a call of an MCP tool: those of its request (organisation, workspace, headers), then those that the
   * configuration gives the server; undefined for none. Throws `invalid_header` and `config_unknown` for guardrails that
   * cannot run, and `not_supported` where the pipeline runs none.
   */
  toolGuardrails(
    context: RequestContext,
    call: Pick<ToolCall, 'server' | 'guardrails'>,
  ): GuardrailSpecs | undefined;
  /**
   * Throws `invalid_config` with all faults of a config that is to be saved, as pointers from `/config`.
   */
  checkConfig(draft: ConfigDraft): void;
  /**
   * Where the config would lead this request of the key, and why; nothing is sent. Rejects as `checkConfig` throws, and
   * with the refusal of a request that cannot be read (`invalid_header`).
   */
  explainConfig(draft: ConfigDraft, request: SampleRequest, key: KeyRecord): Promise<PlanDocument>;
  /**
   * Headers with the credential of a stored provider, for a request to its own host that asks for no model. Throws, or
   * rejects with, `provider_unknown`, `provider_disabled` when the workspace may not use it now, and `credentials_failed` when
   * its secrets were stored for another origin, sign each request, or are missing.
   */
  credentialFor(wanted: WantedCredential): MaybePromise<HeaderList>;
  /**
   * Prices of a model at the stored provider of this slug, for `Prices`; undefined where the place has none that can be
   * used, or the gateway stores no providers. Never throws.
   */
  storedPrices(
    place: WantedCredential['place'],
    slug: string,
    model: string,
  ): string | PricedModels | undefined;
  /** The built-in hosts by name, for integrations. */
  readonly providers: ProviderTable;
}
