import type { exportStates } from './request-row.ts';
import { type ExportField, type ExportFormat } from './request-row.ts';
import type { RateLimit, UsageLimit } from './budgets.ts';
import type { OauthClientMethod } from './oauth.ts';
import type { DatedFactor, DatedTokenPrice } from './prices.ts';

type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };

type JsonObject = { readonly [name: string]: Json };

/** A config as it was sent; the router compiles it. Slugs begin with `pc-`. */
export interface ConfigData {
  readonly config: JsonObject;
  /** Applies to requests of the workspace that name no other config. */
  readonly isDefault: boolean;
}

/** One model of an integration. */
export interface IntegrationModel {
  readonly slug: string;
  readonly enabled: boolean;
  /** A model that the catalogue does not know. */
  readonly isCustom: boolean;
  readonly isFinetune: boolean;
  /** The model whose price and capabilities apply; empty for none. */
  readonly baseModelSlug: string;
  /** Nothing but `custom_host`. */
  readonly configurations: JsonObject;
  readonly pricing: DatedTokenPrice | undefined;
  /** Prices that replace `pricing` later, in the order of time; absent for none. */
  readonly laterPricing?: readonly DatedTokenPrice[];
}

/** Permission and limits of one workspace at an integration. */
export interface IntegrationAccess {
  readonly enabled: boolean;
  readonly usageLimits: readonly UsageLimit[];
  readonly rateLimits: readonly RateLimit[];
}

/** Reference to a secret value that the record does not hold itself. */
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
   * Options as in `providers:` of the YAML, without the secret ones. Users of the organisation set `base_url`, not the
   * operator, so it is guarded like a custom host. `deployments` of Azure are objects with `deployment_id`,
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
  /** Factors that replace it later, in the order of time; absent for none. */
  readonly laterMultipliers?: readonly DatedFactor[];
}

/** An integration as one workspace uses it; `@slug` names it on the request path. Its parent is the integration. */
export interface ProviderData {
  readonly note: string;
  readonly usageLimits: UsageLimit | undefined;
  readonly rateLimits: readonly RateLimit[];
  readonly expiresAt: number | undefined;
  /** Created by the older routes of virtual keys, together with an integration of its own. */
  readonly isVirtualKey: boolean;
}

/** A secret in an external manager; credentials for it are in the record's `secrets`. */
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
   * that the provider table names. Absent in records that are older than the field: every host.
   */
  readonly allowedHosts?: readonly string[];
  /** For people; absent for none. */
  readonly tags?: Readonly<Record<string, string>>;
}

/** Matches a request that has one of the values, and none of the excluded ones. */
export interface PolicyCondition {
  readonly key: string;
  /** A value that ends in `*` is a prefix. */
  readonly value: string | readonly string[];
  readonly excludes?: string | readonly string[];
}

/** Requests that a policy applies to, and the groups in which it counts them. */
export interface PolicyRules {
  readonly conditions: readonly PolicyCondition[];
  readonly groupBy: readonly { readonly key: string }[];
}

/** Requests that a policy counts: requests to providers, or calls of tools of MCP servers. */
export type PolicyTarget = 'llm' | 'mcp_tools';

export interface RateLimitPolicyData extends PolicyRules {
  /** Absent: `llm`. */
  readonly target?: PolicyTarget;
  readonly type: 'requests' | 'tokens';
  readonly unit: 'rpm' | 'rph' | 'rpd' | 'rpw';
  readonly value: number;
}

export interface UsageLimitPolicyData extends PolicyRules {
  /** Absent: `llm`. */
  readonly target?: PolicyTarget;
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

/** One version of a prompt: a template with its model and parameters. Its parent is a collection. */
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
  /** Number of the version for requests that name none. */
  readonly defaultVersion: number;
}

/** One version of a fragment that prompts include (`{{>slug}}`). */
export interface PromptPartialData {
  readonly template: string;
  readonly defaultVersion: number;
}

export type McpCapabilityType = 'tool' | 'prompt' | 'resource' | 'resource_template';

/**
 * One offer of a server of the Model Context Protocol, as of its last answer; a tool as it was first seen, until a change
 * is accepted.
 */
export interface McpCapability {
  readonly type: McpCapabilityType;
  readonly name: string;
  /** The server's description, in the members of the protocol. */
  readonly described: JsonObject;
  /** Of a tool: the `toolDigest` of its whole description. Absent in records of gateways that kept none. */
  readonly digest?: string | undefined;
  /** A later description of a tool, which waits to be accepted; the tool is held back meanwhile. */
  readonly pending?: { readonly described: JsonObject; readonly digest?: string | undefined } | undefined;
  /** Workspaces may use it, unless their own server records override that. */
  readonly enabled: boolean;
  /** Times of the first sight, and of the last observed change. */
  readonly createdAt: number;
  readonly updatedAt: number;
}

/**
 * OAuth towards an MCP server, in the names of the API and of the YAML, without the secrets: these are
 * `configurations.oauth.client_secret` and `configurations.oauth.private_key`.
 */
export interface McpOauthSettings {
  /** Absent: the gateway registers itself. */
  readonly client_id?: string;
  /** Absent: by the secret that there is, and what the authorization server says. */
  readonly token_endpoint_auth_method?: OauthClientMethod;
  /** Absent: the server names it. */
  readonly issuer?: string;
  /** Absent: the authorization server names them. */
  readonly token_endpoint?: string;
  readonly authorization_endpoint?: string;
  readonly revocation_endpoint?: string;
  /** Separated by spaces. Absent: those that the server names. */
  readonly scope?: string;
  /** `resource` of requests for tokens (RFC 8707); empty: none. Absent: the name of the server. */
  readonly resource?: string;
  /** `audience` of requests for tokens. */
  readonly audience?: string;
  /** Tokens of the organisation's identity provider are exchanged for ones of the server (RFC 8693). Absent: never. */
  readonly token_exchange?: 'preferred' | 'required';
  /** Type of the exchanged token. Absent: `jwt`. */
  readonly subject_token_type?: 'jwt' | 'access_token' | 'id_token';
}

/** An external server of the Model Context Protocol. Of the organisation, or of one workspace. */
export interface McpIntegrationData {
  readonly description: string;
  readonly url: string;
  readonly authType: 'oauth_auto' | 'oauth_client_credentials' | 'headers' | 'none';
  readonly transport: 'http' | 'sse';
  /** Names of headers sent with every call; their values are the secret `configurations.custom_headers` (JSON). */
  readonly customHeaders: readonly string[];
  /** Kept as it was sent: the run time decides which headers of a caller it forwards. */
  readonly passthroughHeader: JsonObject;
  /** Absent for none. */
  readonly oauth?: McpOauthSettings | undefined;
  /** Claims of the caller's verified token by the header in which they are sent; absent for none. */
  readonly identityHeaders?: Readonly<Record<string, string>> | undefined;
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
  /** Reason why the last handshake failed; empty when it succeeded. */
  readonly syncError: string;
  readonly capabilities: readonly McpCapability[];
}

/** An MCP integration as one workspace uses it. Its parent is the integration. */
export interface McpServerData {
  readonly description: string;
  /** Overrides of the integration's capabilities. */
  readonly capabilities: readonly {
    readonly type: McpCapabilityType;
    readonly name: string;
    readonly enabled: boolean;
  }[];
  readonly defaultUserAccess: 'allow' | 'deny';
  /** Exceptions from `defaultUserAccess`, by id of the user. */
  readonly userAccess: Readonly<Record<string, boolean>>;
}

/** A tool that a virtual MCP server shows. */
interface McpVirtualTool {
  /** Slug of the server that has it. */
  readonly server: string;
  /** Name there. */
  readonly tool: string;
  /** Name for clients; absent: the same. */
  readonly name?: string | undefined;
  /** Absent: that of the server. */
  readonly description?: string | undefined;
}

/** Servers of one workspace, or single tools of them, that are served as one MCP server. */
export interface McpVirtualServerData {
  readonly description: string;
  /** For the model, in the handshake; empty for none. */
  readonly instructions: string;
  readonly mode: 'list' | 'search';
  /** Slugs of MCP servers, of records or of the configuration; undefined: those of `tools`. */
  readonly servers: readonly string[] | undefined;
  /** Undefined: all tools of the servers. */
  readonly tools: readonly McpVirtualTool[] | undefined;
}

/** A client as an authorization server knows it. */
interface ConnectionClient {
  /** Empty where the settings name endpoints alone. */
  readonly issuer: string;
  readonly clientId: string;
  readonly clientMethod: OauthClientMethod;
}

/**
 * The account of one user at an MCP server that wants tokens of users (`oauth_auto`). Its parent is the server; empty for
 * one of the YAML. Secrets: `access_token`, `refresh_token`, and `client_secret` of a client that the gateway registered.
 */
export interface McpConnectionData extends ConnectionClient {
  readonly userId: string;
  /** Id of the server's record; `yaml:` and the slug for one of the YAML. */
  readonly server: string;
  /** Digest of the server's address and settings: with others the tokens are of no use. */
  readonly binding: string;
  readonly tokenEndpoint: string;
  /** Empty for none. */
  readonly revocationEndpoint: string;
  /** The gateway registered the client itself. */
  readonly isRegistered: boolean;
  /** `resource` and `audience` of requests for tokens; empty for none. */
  readonly resource: string;
  readonly audience: string;
  /** Granted scopes, separated by spaces. */
  readonly scope: string;
  /** Milliseconds since the epoch. */
  readonly obtainedAt: number;
  /** Of the access token; undefined when the server does not say. */
  readonly expiresAt: number | undefined;
  /** There is a refresh token. */
  readonly isRefreshed: boolean;
  /** A gateway replaces the tokens, until this time at the latest; 0: none does. */
  readonly leasedUntil: number;
}

/**
 * The gateway as a client that an authorization server has registered for an MCP server. Its parent is the server; empty for
 * one of the YAML. Secret: `client_secret`.
 */
export interface McpClientData extends ConnectionClient {
  readonly server: string;
  readonly redirectUri: string;
  /** Of the secret, milliseconds since the epoch; undefined for never. */
  readonly expiresAt: number | undefined;
}

/** Creator of an export, with the data from which their rights can be checked again. */
export interface ExportCreator {
  readonly keyId: string;
  readonly keyName: string;
  readonly kind: 'owner' | 'organisation-service' | 'workspace-service' | 'workspace-user';
  readonly workspaceId: string;
  /** Empty for none. */
  readonly userId: string;
  /** The directory knew the key. False for bearers of tokens and keys of the auth plugin's options. */
  readonly isKnownKey: boolean;
  /** The directory knew the user. */
  readonly isKnownUser: boolean;
}

/** Log entries of a workspace that are, or will be, put into a file. */
export interface LogExportData {
  readonly description: string;
  readonly format: ExportFormat;
  readonly requestedData: readonly ExportField[];
  /** As the request wrote them. */
  readonly filters: JsonObject;
  /** The same compiled: the window in milliseconds since the epoch (`to` excluded), and a `RequestFilter`. */
  readonly from: number;
  readonly to: number;
  readonly filter: JsonObject;
  /** Number of rows to leave out at the beginning, and upper bound of rows. */
  readonly skip: number;
  readonly limit: number;
  /** Only rows of this user or key: the visibility of the creator at the draft. `requireRights` checks it again later. */
  readonly visibleUserId: string | undefined;
  readonly visibleKeyId: string | undefined;
  readonly creator: ExportCreator;
  readonly state: ExportState;
  /** Number of starts. */
  readonly run: number;
  /** Rows that matched at the last count. */
  readonly total: number;
  /** Rows, and bytes of the file, that are written so far. */
  readonly rows: number;
  readonly bytes: number;
  /** Reason of the failure; empty without one. */
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
  readonly mcp_virtual_server: McpVirtualServerData;
  readonly mcp_connection: McpConnectionData;
  readonly mcp_client: McpClientData;
  readonly log_export: LogExportData;
}

/** One of them. */
type ExportState = (typeof exportStates)[number];
