import type { ExportField, ExportFormat, ExportState } from './export-fields.ts';
import type { RateLimit, UsageLimit } from './limits.ts';
import type { DatedFactor, DatedTokenPrice } from './prices.ts';

type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };
type JsonObject = { readonly [name: string]: Json };

/** A config as it was sent; what it means is worked out by the router. Slugs begin with `pc-`. */
export interface ConfigData {
  readonly config: JsonObject;
  /** Requests of the workspace begin with it when nothing else says otherwise. */
  readonly isDefault: boolean;
}

/** One model of an integration. */
export interface IntegrationModel {
  readonly slug: string;
  readonly enabled: boolean;
  /** A model that the catalogue does not know. */
  readonly isCustom: boolean;
  readonly isFinetune: boolean;
  /** The model whose price and abilities it has; empty for none. */
  readonly baseModelSlug: string;
  /** `custom_host` at the most. */
  readonly configurations: JsonObject;
  /** Its own price. */
  readonly pricing: DatedTokenPrice | undefined;
  /** Prices that take its place, in the order of time; absent for none. */
  readonly laterPricing?: readonly DatedTokenPrice[];
}

/** What a workspace may do with an integration. */
export interface IntegrationAccess {
  readonly enabled: boolean;
  readonly usageLimits: readonly UsageLimit[];
  readonly rateLimits: readonly RateLimit[];
}

/** Where a secret value comes from instead of standing in the record. */
export interface SecretMapping {
  /** `key`, or `configurations.<field>`. */
  readonly targetField: string;
  readonly secretReferenceId: string;
  /** Member of the secret's JSON; empty for the whole. */
  readonly secretKey: string;
  readonly valueFormat: 'string' | 'json';
}

/** Credentials at a provider. Of the organisation, or of one workspace. Secret fields are in the record's `secrets`. */
export interface IntegrationData {
  /** Name of a row of the provider table. */
  readonly aiProviderId: string;
  readonly description: string;
  /**
   * Options as in `providers:` of the YAML, without the secret ones. `base_url` was given by people of the organisation
   * and not by the operator: it is guarded like a custom host. `deployments` of Azure are objects with `deployment_id`,
   * `alias`, `api_version`, `model` and `is_default`. Secrets: `key`, `configurations.<field>` (`headers` as JSON), and
   * `models.<slug>.headers` (JSON).
   */
  readonly configurations: JsonObject;
  readonly secretMappings: readonly SecretMapping[];
  readonly allowAllModels: boolean;
  readonly models: readonly IntegrationModel[];
  /** For workspaces that are not named. */
  readonly globalAccess: IntegrationAccess;
  /** By id of the workspace. */
  readonly workspaces: Readonly<Record<string, IntegrationAccess>>;
  /** Factors on prices; 1 for none. */
  readonly priceMultiplier: number;
  /** Factors that take its place, in the order of time; absent for none. */
  readonly laterMultipliers?: readonly DatedFactor[];
}

/** An integration as one workspace uses it: what `@slug` names on the request path. Its parent is the integration. */
export interface ProviderData {
  readonly note: string;
  readonly usageLimits: UsageLimit | undefined;
  readonly rateLimits: readonly RateLimit[];
  readonly expiresAt: number | undefined;
  /** Made by the older routes of virtual keys, together with an integration of its own. */
  readonly isVirtualKey: boolean;
}

/** A secret in a manager elsewhere; credentials for it are in the record's `secrets`. */
export interface SecretReferenceData {
  readonly description: string;
  readonly managerType: 'aws_sm' | 'azure_kv' | 'hashicorp_vault' | 'environment' | 'file';
  /** Without its secret fields. */
  readonly authConfig: JsonObject;
  readonly secretPath: string;
  /** Member of the secret's JSON; empty for the whole. */
  readonly secretKey: string;
  readonly allowAllWorkspaces: boolean;
  /** Ids. */
  readonly allowedWorkspaces: readonly string[];
  /**
   * Hosts that the secret may be sent to: `host` or `host:port`, `http://` before it for one without TLS. Empty: those
   * that the provider table names. Absent in records from before there were any: every host.
   */
  readonly allowedHosts?: readonly string[];
  /** For people; absent for none. */
  readonly tags?: Readonly<Record<string, string>>;
}

/** Holds for a request that says one of the values, and none of the excluded ones. */
export interface PolicyCondition {
  readonly key: string;
  /** A value that ends in `*` is a beginning. */
  readonly value: string | readonly string[];
  readonly excludes?: string | readonly string[];
}

/** Which requests a policy is about, and what is counted together. */
export interface PolicyRules {
  readonly conditions: readonly PolicyCondition[];
  readonly groupBy: readonly { readonly key: string }[];
}

export interface RateLimitPolicyData extends PolicyRules {
  readonly type: 'requests' | 'tokens';
  readonly unit: 'rpm' | 'rph' | 'rpd' | 'rpw';
  readonly value: number;
}

export interface UsageLimitPolicyData extends PolicyRules {
  readonly type: 'cost' | 'tokens' | 'requests';
  readonly creditLimit: number;
  readonly alertThreshold: number | undefined;
  readonly periodicReset: 'monthly' | 'weekly' | undefined;
  readonly periodicResetDays: number | undefined;
  readonly nextResetAt: number | undefined;
}

export interface GuardrailData {
  readonly checks: readonly {
    readonly id: string;
    readonly name: string;
    readonly isEnabled: boolean;
    readonly parameters: JsonObject;
    /** Absent: `fail` where the guardrail denies, else `pass`. */
    readonly onError?: 'pass' | 'fail';
    /** Milliseconds; absent: that of the check. */
    readonly timeoutMs?: number;
  }[];
  readonly actions: JsonObject;
}

export interface DeploymentData {
  readonly type: 'production' | 'non-production';
  readonly config: JsonObject;
  readonly allowAllWorkspaces: boolean;
  readonly allowedWorkspaces: readonly string[];
}

/** A folder of prompts. Its parent is another collection, or none. */
interface CollectionData {
  readonly isDefault: boolean;
}

interface LabelData {
  readonly description: string;
  readonly colourCode: string;
  readonly isUniversal: boolean;
}

/** One version of a prompt: a template and what it is sent with. Its parent is a collection. */
export interface PromptData {
  /** Mustache; a JSON array of messages, or plain text. */
  readonly template: string;
  readonly parameters: JsonObject;
  /** Slug of a provider. */
  readonly virtualKey: string;
  readonly model: string;
  readonly functions: readonly JsonObject[];
  readonly tools: readonly JsonObject[];
  readonly toolChoice: Json;
  readonly metadata: JsonObject;
  readonly isRawTemplate: boolean;
  /** Number of the version that is used when a request names none. */
  readonly defaultVersion: number;
}

/** One version of a piece that prompts include (`{{>slug}}`). */
export interface PromptPartialData {
  readonly template: string;
  readonly defaultVersion: number;
}

export type McpCapabilityType = 'tool' | 'prompt' | 'resource' | 'resource_template';

/** What a server of the Model Context Protocol offered when it was last asked. */
export interface McpCapability {
  readonly type: McpCapabilityType;
  readonly name: string;
  /** What the server says of it, in the members of the protocol. */
  readonly described: JsonObject;
  /** Workspaces may use it, as far as their own servers do not say otherwise. */
  readonly enabled: boolean;
  /** When it was first, and last, seen different. */
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** A server of the Model Context Protocol somewhere else. Of the organisation, or of one workspace. */
export interface McpIntegrationData {
  readonly description: string;
  readonly url: string;
  readonly authType: 'oauth_auto' | 'oauth_client_credentials' | 'headers' | 'none';
  readonly transport: 'http' | 'sse';
  /** Names of headers sent with every call; their values are the secret `configurations.custom_headers` (JSON). */
  readonly customHeaders: readonly string[];
  /** Kept as it was sent: which headers of a caller travel on is the run time's to say. */
  readonly passthroughHeader: JsonObject;
  readonly secretMappings: readonly SecretMapping[];
  /** For workspaces that are not named. */
  readonly globalAccess: { readonly enabled: boolean };
  /** By id of the workspace. */
  readonly workspaces: Readonly<
    Record<string, { readonly enabled: boolean; readonly createdAt: number; readonly updatedAt: number }>
  >;
  /** The last handshake that succeeded; undefined before the first. */
  readonly server:
    | {
        readonly name: string;
        readonly version: string;
        readonly protocolVersion: string;
        readonly capabilityFlags: JsonObject;
        readonly syncedAt: number;
      }
    | undefined;
  /** Why the last handshake failed; empty when it did not. */
  readonly syncError: string;
  readonly capabilities: readonly McpCapability[];
}

/** An MCP integration as one workspace uses it. Its parent is the integration. */
export interface McpServerData {
  readonly description: string;
  /** What the workspace says otherwise than the integration. */
  readonly capabilities: readonly {
    readonly type: McpCapabilityType;
    readonly name: string;
    readonly enabled: boolean;
  }[];
  readonly defaultUserAccess: 'allow' | 'deny';
  /** By id of the user: what is said otherwise than for all. */
  readonly userAccess: Readonly<Record<string, boolean>>;
}

/** Who made an export, as far as their rights can be looked up again. */
export interface ExportCreator {
  readonly keyId: string;
  readonly keyName: string;
  readonly kind: 'owner' | 'organisation-service' | 'workspace-service' | 'workspace-user';
  readonly workspaceId: string;
  /** Empty for none. */
  readonly userId: string;
  /** The directory knew the key: not so for bearers of tokens and keys of the auth plugin's options. */
  readonly isKnownKey: boolean;
  /** The directory knew the user. */
  readonly isKnownUser: boolean;
}

/** Log entries of a workspace that are, or will be, put into a file. */
export interface LogExportData {
  readonly description: string;
  readonly format: ExportFormat;
  readonly requestedData: readonly ExportField[];
  /** As they were asked for. */
  readonly filters: JsonObject;
  /** What they mean: the window in milliseconds since the epoch (`to` excluded), and a `RequestFilter`. */
  readonly from: number;
  readonly to: number;
  readonly filter: JsonObject;
  /** So many rows are left out at the beginning, and so many come at the most. */
  readonly skip: number;
  readonly limit: number;
  /** Whose rows of the workspace: those that its creator might see when it was drafted, and again when it was started. */
  readonly visibleUserId: string | undefined;
  readonly visibleKeyId: string | undefined;
  readonly creator: ExportCreator;
  readonly state: ExportState;
  /** How many times it was started. */
  readonly run: number;
  /** Rows that it was about when it was last counted. */
  readonly total: number;
  /** Rows, and bytes of the file, that are written. */
  readonly rows: number;
  readonly bytes: number;
  /** Why it failed; empty when it did not. */
  readonly error: string;
  readonly startedAt: number | undefined;
  readonly finishedAt: number | undefined;
  /** When its file is removed; undefined while there is none, and afterwards. */
  readonly expiresAt: number | undefined;
}

/** The data of every kind of record. */
export interface RecordKinds {
  readonly config: ConfigData;
  readonly integration: IntegrationData;
  readonly provider: ProviderData;
  readonly secret_reference: SecretReferenceData;
  readonly rate_limit_policy: RateLimitPolicyData;
  readonly usage_limit_policy: UsageLimitPolicyData;
  readonly guardrail: GuardrailData;
  readonly deployment: DeploymentData;
  readonly collection: CollectionData;
  readonly label: LabelData;
  readonly prompt: PromptData;
  readonly prompt_partial: PromptPartialData;
  readonly mcp_integration: McpIntegrationData;
  readonly mcp_server: McpServerData;
  readonly log_export: LogExportData;
}
