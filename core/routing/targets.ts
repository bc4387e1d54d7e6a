import type { GatewayConfig } from '../config/schema.ts';
import type { DialectName } from '../dialects/endpoint.ts';
import type { CredentialFactory, CredentialKind, Credentials } from '../ports/credentials.ts';
import { parseJson } from '../base/json.ts';
import type { LimitCharges } from '../access/limit-charges.ts';
import { headerValue } from '../ports/header-list.ts';
import { credentialHeaders } from '../base/header-names.ts';
import { providerFieldAliases, providerFields } from '../providers/provider-fields.ts';
import { inProcessProvider, type ProviderRow, type ProviderTable } from '../providers/provider-row.ts';
import type { Target, TargetModels } from '../pipeline/router.ts';
import { sha256 } from '../base/bytes.ts';
import { type BaseUrl, fillBaseUrl, splitBaseUrl } from '../providers/base-url.ts';
import { credentialHeader } from './credentials.ts';

/** Default row by dialect, overridden by the host's own row. Every other dialect: `Authorization: Bearer`. */
const defaults: Readonly<Partial<Record<DialectName, ProviderRow>>> = {
  'anthropic-messages': {
    credentials: 'x-api-key',
    // Required by the API: https://docs.anthropic.com/en/api/versioning
    headers: { 'anthropic-version': '2023-06-01' },
    usage_in_stream: 'always',
  },
  'google-gemini': { credentials: 'x-goog-api-key' },
  'google-vertex': { credentials: 'google' },
  'azure-openai': { credentials: 'api-key' },
  'bedrock-converse': { credentials: 'sigv4' },
};

/** The row with the defaults of its dialect filled in. */
export function withDialectDefaults(row: ProviderRow): ProviderRow {
  const own = defaults[row.dialect ?? 'openai-chat'];
  return own === undefined ? row : { ...own, ...row, headers: { ...own.headers, ...row.headers } };
}

export type Fields = Readonly<Record<string, string>>;

/** Dependencies for building targets. */
export interface TargetMaker {
  readonly factory: CredentialFactory;
  /** Prefix of the gateway's own headers, for messages: `x-service`. */
  readonly headerPrefix: string;
}

const secretFields: ReadonlySet<string> = new Set(
  providerFields.filter(({ secret }) => secret).map(({ name }) => name),
);

const fieldNames: ReadonlySet<string> = new Set(providerFields.map(({ name }) => name));

/** Settings that are sent as a header of their dialect. */
const settingHeaders: Readonly<Record<string, string>> = {
  anthropic_beta: 'anthropic-beta',
  anthropic_version: 'anthropic-version',
  openai_organization: 'openai-organization',
  openai_project: 'openai-project',
  openai_beta: 'openai-beta',
};

/** A provider that can be addressed by name: its row, and the gateway's settings and credential for it. */
export class KnownProvider {
  readonly name: string;
  readonly row: ProviderRow;
  /** Defined in YAML, so addressable as a slug or virtual key. */
  readonly configured: boolean;
  /** Callers may use their own credential: a built-in provider for which the gateway holds none. */
  readonly takesCallers: boolean;
  private readonly machineIdentity: boolean;
  private readonly guarded: boolean;
  private readonly models: TargetModels | undefined;
  private readonly limits: LimitCharges | undefined;
  private readonly fields: Fields;
  private readonly apiKey: string | undefined;
  private readonly maker: TargetMaker;
  private ownTarget: Target | undefined;
  private plainCallerTarget: Target | undefined;

  constructor(source: KnownProviderSource, maker: TargetMaker) {
    const { name, fields, apiKey, builtIn, configured } = source;
    const row = withDialectDefaults(source.row);
    this.name = name;
    this.row = row;
    this.fields = fields;
    this.apiKey = apiKey;
    this.configured = configured;
    this.maker = maker;
    this.machineIdentity = source.machineIdentity ?? configured;
    this.guarded = source.guarded ?? false;
    this.models = source.models;
    this.limits = source.limits;
    const inHeaders = credentialHeaders.some((one) => headerValue(rowHeaders(row), one) !== undefined);
    const holds = row.credentials === 'none' || inHeaders || apiKey !== undefined || holdsCredential(fields);
    this.takesCallers = builtIn && !holds;
  }

  /** The built-in provider that answers in this process: addressable as a slug without configuration. */
  get isInProcess(): boolean {
    return !this.configured && this.name === inProcessProvider;
  }

  /** Created by users of an organisation, not by the operator. */
  get isStored(): boolean {
    return this.models !== undefined;
  }

  /** Target with the held credential, or none. Throws `invalid_request` when a field is missing or invalid. */
  get target(): Target {
    if (this.ownTarget !== undefined) return this.ownTarget;
    const { fields, apiKey, machineIdentity: configured } = this;
    this.ownTarget = this.build({ fields, apiKey, configured }, this.address(fields), rowHeaders(this.row));
    return this.ownTarget;
  }

  /** Target with the caller's own credential, and the caller's fields beside the settings of the configuration. */
  callerTarget(given: Fields): Target {
    if (Object.keys(given).length > 0) return this.buildForCaller(given);
    this.plainCallerTarget ??= this.buildForCaller(given);
    return this.plainCallerTarget;
  }

  /**
   * Target at an address that the request or a config named. Built without the gateway's secrets, which that host must
   * never receive; headers of a row in YAML may hold one, too. `apiKey` is the credential that came with the address.
   */
  customTarget(given: Fields, address: BaseUrl, apiKey?: string): Target {
    const holding = { fields: this.callerFields(given), apiKey, configured: false };
    return withPassedAuthorization(
      this.build(holding, address, this.configured ? [] : rowHeaders(this.row)),
      apiKey,
    );
  }

  /** Target with the credential of a config; `configured`: the operator wrote it. */
  configTarget({ fields: given, apiKey, configured }: Holding): Target {
    const fields = { ...withoutSecrets(this.fields), ...given };
    const holding = { fields, apiKey, configured };
    return withPassedAuthorization(this.build(holding, this.address(fields), rowHeaders(this.row)), apiKey);
  }

  /** Target with the held credential, and further settings of the operator's config. */
  heldTarget(given: Fields): Target {
    const { apiKey, machineIdentity: configured } = this;
    const fields = { ...this.fields, ...given };
    return this.build({ fields, apiKey, configured }, this.address(fields), rowHeaders(this.row));
  }

  private buildForCaller(given: Fields): Target {
    const fields = this.callerFields(given);
    const holding = { fields, apiKey: undefined, configured: false };
    return withPassedAuthorization(this.build(holding, this.address(fields), rowHeaders(this.row)));
  }

  private callerFields(given: Fields): Fields {
    return { ...given, ...withoutSecrets(this.fields) };
  }

  private address(fields: Fields): BaseUrl {
    const { name: provider, maker } = this;
    return splitBaseUrl(
      fillBaseUrl(this.row.base_url ?? '', fields, { provider, headerPrefix: maker.headerPrefix }),
    );
  }

  private build(holding: Holding, address: BaseUrl, ownHeaders: readonly string[]): Target {
    const { row, name } = this;
    const found = providerCredential({ ...holding, row, factory: this.maker.factory });
    const dialect = row.dialect ?? 'openai-chat';
    const settings = settingsOf(holding.fields);
    const headers = [...headersOfSettings(settings, dialect), ...ownHeaders, ...(found?.headers ?? [])];
    return {
      provider: name,
      service: row.service ?? name,
      dialect,
      origin: address.origin,
      basePath: address.basePath,
      guarded: this.guarded,
      headers,
      passAuthorization: false,
      usageInStream: row.usage_in_stream ?? 'on_request',
      alsoSpeaks: row.also_speaks ?? [],
      quirks: row.quirks ?? {},
      settings,
      credentials: found?.credentials,
      credentialDigest: found?.credentials === undefined ? '' : secretsDigest(holding.fields),
      signsBody: row.credentials === 'sigv4',
      onDrop: row.on_drop,
      models: this.models,
      limits: this.limits,
    };
  }
}

/** Forwards the caller's Authorization, unless a key or the fields already provide a credential. */
function withPassedAuthorization(target: Target, apiKey?: string): Target {
  return { ...target, passAuthorization: target.credentials === undefined && apiKey === undefined };
}

/** Fields and credential of a target. */
interface Holding {
  readonly fields: Fields;
  readonly apiKey: string | undefined;
  /** The operator gave it. */
  readonly configured: boolean;
}

/** Source of a provider: a row of the table, the configuration, or both. */
interface KnownProviderSource {
  readonly name: string;
  readonly row: ProviderRow;
  readonly fields: Fields;
  readonly apiKey: string | undefined;
  readonly builtIn: boolean;
  readonly configured: boolean;
  /** The identity of the gateway's own machine may serve as a credential. Default: when `configured`. */
  readonly machineIdentity?: boolean;
  /** The address is not the operator's, so it must be public. Default false. */
  readonly guarded?: boolean;
  /** Allowed models and their prices. Default: all models, at the known prices. */
  readonly models?: TargetModels;
  /** Limits that count each attempt. Default: none. */
  readonly limits?: LimitCharges | undefined;
}

/** Every addressable provider by name: the built-in rows, overridden and extended by the configuration. */
export function compileTargets(
  providers: GatewayConfig['providers'],
  table: ProviderTable,
  maker: TargetMaker,
): ReadonlyMap<string, KnownProvider> {
  const known = new Map<string, KnownProvider>();
  for (const [name, row] of table) {
    const source = { name, row, fields: {}, apiKey: undefined, builtIn: true, configured: false };
    known.set(name, new KnownProvider(source, maker));
  }
  for (const [name, options] of Object.entries(providers))
    known.set(name, new KnownProvider(configuredSource(name, options, table.get(name)), maker));
  return known;
}

/** The source of a provider from its options and their base row. */
export function configuredSource(
  name: string,
  { api_key: apiKey, ...given }: GatewayConfig['providers'][string],
  base: ProviderRow | undefined,
): KnownProviderSource {
  const { row: own, fields } = separate(given);
  // A host with an explicit dialect is assumed to speak no other.
  const inherited = own.dialect === undefined ? base : { ...base, also_speaks: [] };
  const address = own.base_url ?? fields['azure_foundry_url'] ?? fields['huggingface_base_url'];
  const row = { ...inherited, ...own, headers: { ...base?.headers, ...own.headers } };
  if (address !== undefined) row.base_url = address;
  return { name, row, fields, apiKey, builtIn: base !== undefined, configured: true };
}

function separate(given: Omit<GatewayConfig['providers'][string], 'api_key'>): {
  row: ProviderRow;
  fields: Fields;
} {
  const row: Record<string, unknown> = {};
  const fields: Record<string, string> = {};
  for (const [name, value] of Object.entries(given)) {
    const field = providerFieldAliases[name] ?? name;
    if (fieldNames.has(field) && typeof value === 'string') fields[field] = value;
    else row[name] = value;
  }
  return { row, fields };
}

function rowHeaders(row: ProviderRow): string[] {
  return Object.entries(row.headers ?? {}).flat();
}

function headersOfSettings(settings: Fields, dialect: DialectName): string[] {
  const family = dialect === 'anthropic-messages' ? 'anthropic-' : 'openai-';
  const headers: string[] = [];
  for (const [field, header] of Object.entries(settingHeaders)) {
    const value = settings[field];
    if (value !== undefined && header.startsWith(family)) headers.push(header, value);
  }
  return headers;
}

/**
 * The fields without secrets, for dialects. The project of a service account is that of its key, unless another one is
 * set.
 */
function settingsOf(fields: Fields): Fields {
  const settings = withoutSecrets(fields);
  const { vertex_project_id: project, vertex_service_account_json: key } = fields;
  if (project !== undefined || key === undefined) return settings;
  const found: unknown = parseJson(key);
  const own =
    typeof found === 'object' && found !== null && 'project_id' in found ? found.project_id : undefined;
  return typeof own === 'string' ? { ...settings, vertex_project_id: own } : settings;
}

/** Whether the fields hold a secret, or an identity of the machine that serves as one. */
function holdsCredential(fields: Fields): boolean {
  return Object.keys(fields).some(
    (name) => secretFields.has(name) || name === 'azure_auth_mode' || name === 'aws_role_arn',
  );
}

/** Whether one of the fields is a secret. */
export function holdsSecret(fields: Fields): boolean {
  return Object.keys(fields).some((name) => secretFields.has(name));
}

function secretsDigest(fields: Fields): string {
  const secrets = Object.entries(fields).filter(([name]) => secretFields.has(name));
  return sha256(JSON.stringify(secrets.sort(([one], [other]) => (one < other ? -1 : 1))), 'base64url');
}

function withoutSecrets(fields: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !secretFields.has(name)));
}

/** Authorization for one provider: fixed headers, or credentials that sign or fetch a token. */
interface ProviderCredential {
  readonly headers: readonly string[];
  readonly credentials: Credentials | undefined;
}

/** Source of a credential. */
interface CredentialSource {
  readonly row: ProviderRow;
  readonly apiKey: string | undefined;
  readonly fields: Readonly<Record<string, string>>;
  readonly factory: CredentialFactory;
  /** The operator wrote the fields. */
  readonly configured: boolean;
}

/** The credential from row, key and fields; undefined when they hold none. Throws `invalid_request` for an invalid field. */
function providerCredential(source: CredentialSource): ProviderCredential | undefined {
  const { row, apiKey, fields, factory, configured } = source;
  const kind = row.credentials ?? 'bearer';
  const made = credentialKindOf(kind, fields, apiKey, configured);
  if (made !== undefined) {
    const given = apiKey === undefined ? fields : { ...fields, api_key: apiKey };
    return { headers: [], credentials: factory.create(made, given, { machineIdentity: configured }) };
  }
  if (apiKey === undefined) return undefined;
  return { headers: credentialHeader(kind, apiKey), credentials: undefined };
}

/** The kind of credentials that are signed per request or fetched; undefined when a fixed header suffices. */
function credentialKindOf(
  kind: NonNullable<ProviderRow['credentials']>,
  fields: Readonly<Record<string, string>>,
  apiKey: string | undefined,
  configured: boolean,
): CredentialKind | undefined {
  if (fields['azure_ad_token'] !== undefined || fields['azure_auth_mode'] !== undefined) return 'entra';
  if (fields['azure_entra_client_id'] !== undefined) return 'entra';
  if (kind === 'google' && fields['vertex_service_account_json'] !== undefined) return 'google';
  if (kind === 'entra' && apiKey === undefined && configured) return 'entra';
  if (kind !== 'sigv4' || apiKey !== undefined) return undefined;
  const own = fields['aws_access_key_id'] !== undefined || fields['aws_role_arn'] !== undefined;
  return own || (configured && fields['aws_region'] !== undefined) ? 'sigv4' : undefined;
}
