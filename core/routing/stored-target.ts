import { compileSchema } from '../config/ajv.ts';
import type { GatewayConfig } from '../config/schema.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import { parseJson } from '../base/json.ts';
import type { TrustedHosts } from '../base/host-rules.ts';
import type { LimitCharges } from '../access/limit-charges.ts';
import type { PricedModels } from '../ports/prices.ts';
import type { Target, TargetModels } from '../pipeline/router.ts';
import { mustBeGuarded } from '../providers/base-url.ts';
import type { StoredModels } from './stored-models.ts';
import { configuredSource, KnownProvider, type TargetMaker } from './targets.ts';
import { providerFieldProperties, providerFields, templateValue } from '../providers/provider-fields.ts';
import {
  type ProviderRow,
  ProviderRowSchema,
  maySend,
  type SecretOrigin,
} from '../providers/provider-row.ts';
import type { StoredRecord } from '../ports/records.ts';
import { isPromise } from '../base/turns.ts';
import type { MaybePromise } from '../pipeline/context.ts';
import type { Directory, KeyRecord } from '../ports/directory.ts';
import type { SecretMapping } from '../ports/record-kinds.ts';
import { isAllowedIn, type SecretBox, secretContext, type SecretManagers } from '../ports/secret-managers.ts';

/** Options of `providers:` in the configuration, which integrations share. */
type ProviderOptions = GatewayConfig['providers'][string];

/** Secret values of an integration by their fields: `key`, `configurations.<field>`, `models.<slug>.headers`. */
type OpenedSecrets = ReadonlyMap<string, string>;

const inConfigurations = 'configurations.';
const checkRow = compileSchema(ProviderRowSchema);

/**
 * The settings of an integration as options of `providers:`. Other settings are left out. Throws `provider_disabled` for
 * settings that would be invalid in the configuration, too.
 */
function storedOptions(
  { slug, data }: StoredRecord<'integration'>,
  row: ProviderRow,
  secrets: OpenedSecrets,
): ProviderOptions {
  const rowOptions: Record<string, unknown> = {};
  const options: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(data.configurations)) {
    if (Object.hasOwn(providerFieldProperties, name) && typeof value === 'string') options[name] = value;
    else if (Object.hasOwn(ProviderRowSchema.properties, name)) rowOptions[name] = value;
  }
  for (const [field, value] of secrets) {
    if (field === 'key') options['api_key'] = value;
    else if (field === `${inConfigurations}headers`) rowOptions['headers'] = headersOf(value, slug);
    else if (field.startsWith(inConfigurations)) options[field.slice(inConfigurations.length)] = value;
  }
  const [mistake] = checkRow(rowOptions);
  if (mistake !== undefined)
    throw unusable(slug, `its setting ${mistake.path.slice(1).replaceAll('/', '.')}: ${mistake.message}`);
  const found: ProviderOptions = { ...rowOptions, ...options };
  for (const { name, template } of providerFields) {
    const value = template ? options[name] : undefined;
    if (typeof value === 'string' && !templateValue.test(value))
      throw unusable(slug, `its setting ${name} may hold letters, digits and hyphens, 63 at the most`);
  }
  // A stored provider keeps the name of its kind, which is the key of its prices and counts.
  return { ...found, service: row.service ?? data.aiProviderId };
}

/** Parses headers that are stored as one secret. Throws `provider_disabled`. */
function headersOf(text: string, integration: string): Record<string, string> {
  const found: unknown = parseJson(text);
  const isObject = typeof found === 'object' && found !== null && !Array.isArray(found);
  const headers: Record<string, string> = {};
  for (const [name, value] of isObject ? Object.entries(found) : []) {
    if (typeof value === 'string') headers[name] = value;
  }
  if (isObject) return headers;
  throw unusable(integration, 'its headers are no JSON object');
}

/** The refusal of requests to an integration with invalid settings. */
export function unusable(integration: string, reason: string): GatewayError {
  return new GatewayError(
    'provider_disabled',
    `The integration "${integration}" cannot be used: ${reason}. Correct it through the administration.`,
    { param: 'provider' },
  );
}

/** Dependencies of stored providers; the same for all of a generation. */
export interface StoredTargetSetup {
  readonly maker: TargetMaker;
  readonly trustedHosts: TrustedHosts;
}

/** Parts of one stored provider. */
interface StoredTargetParts {
  /** Name of the provider in requests. */
  readonly slug: string;
  readonly integration: StoredRecord<'integration'>;
  /** Row of the provider table. */
  readonly row: ProviderRow;
  readonly models: StoredModels;
  readonly secrets: OpenedSecrets;
  /** Limits that count each attempt; undefined for none. */
  readonly limits: LimitCharges | undefined;
}

/** Upper bound of cached variants of one provider, by model. */
const maxVariants = 200;

/** A provider of the store, compiled with its secrets: an address, a credential, and the prices of its models. */
export class StoredTarget implements TargetModels {
  readonly known: KnownProvider;
  readonly #parts: StoredTargetParts;
  readonly #setup: StoredTargetSetup;
  readonly #options: ProviderOptions;
  readonly #variants = new Map<string, Target | undefined>();

  /** Throws `provider_disabled` or `custom_host_refused` for invalid settings. */
  constructor(parts: StoredTargetParts, setup: StoredTargetSetup) {
    this.#parts = parts;
    this.#setup = setup;
    this.#options = storedOptions(parts.integration, parts.row, parts.secrets);
    this.known = this.#provider(this.#options);
  }

  get isRestricted(): boolean {
    return this.#parts.models.isRestricted;
  }

  get listed(): readonly string[] {
    return this.#parts.models.listed;
  }

  require(model: string): void {
    this.#parts.models.require(model);
  }

  refusalOfUntold(why: string): GatewayError {
    return this.#parts.models.refusalOfUntold(why);
  }

  pricesOf(model: string): PricedModels | undefined {
    return this.#parts.models.pricesOf(model);
  }

  /**
   * The variant of the target for a model. Only requests to the provider's own target get one: an address in a config or
   * request is kept.
   */
  targetOf(model: string, target: Target): Target | undefined {
    if (target !== this.known.target) return undefined;
    if (this.#variants.has(model)) return this.#variants.get(model);
    const options = this.#optionsOf(model);
    const variant = options === undefined ? undefined : this.#provider(options).target;
    // Undefined variants are not cached, so that arbitrary model names do not fill the cache.
    if (variant !== undefined && this.#variants.size < maxVariants) this.#variants.set(model, variant);
    return variant;
  }

  /** The settings with the model's own ones: an address, headers, a deployment. */
  #optionsOf(model: string): ProviderOptions | undefined {
    const { integration, models, secrets } = this.#parts;
    const deployment = models.deployment(model);
    const host = models.enabled(model)?.configurations['custom_host'];
    const headers = secrets.get(`models.${model}.headers`);
    if (deployment === undefined && typeof host !== 'string' && headers === undefined) return undefined;
    const options: ProviderOptions = { ...this.#options };
    if (deployment !== undefined) {
      options.azure_deployment_id = deployment.id;
      if (deployment.apiVersion !== '') options.azure_api_version = deployment.apiVersion;
      if (deployment.model !== '') options.azure_model_name = deployment.model;
    }
    if (typeof host === 'string') options.base_url = host;
    if (headers !== undefined)
      options.headers = { ...options.headers, ...headersOf(headers, integration.slug) };
    return options;
  }

  #provider(options: ProviderOptions): KnownProvider {
    const { slug, row, integration, limits } = this.#parts;
    const source = configuredSource(slug, options, row);
    const isOwn = source.row.base_url !== row.base_url;
    return new KnownProvider(
      {
        ...source,
        builtIn: false,
        // The machine's identity is the operator's; an integration of one workspace may not use it.
        machineIdentity: integration.workspaceId === undefined,
        guarded: isOwn && this.#isGuarded(source.row.base_url ?? ''),
        models: this,
        limits,
      },
      this.#setup.maker,
    );
  }

  #isGuarded(address: string): boolean {
    if (address.startsWith('mock:')) return false;
    return mustBeGuarded(address, {
      isTrusted: (url) => this.#setup.trustedHosts.has(url),
      param: 'custom_host',
    });
  }
}

/** Organisation and workspace of a look-up. */
export type ProviderPlace = Pick<KeyRecord, 'organisationId' | 'workspaceId'>;

/** Sources of the secrets of integrations. */
interface StoredSecrets {
  readonly directory: Pick<Directory, 'record'>;
  readonly box: SecretBox;
  /** Absent: integrations with external secrets cannot be used. */
  readonly managers?: SecretManagers | undefined;
}

/** Origins that an integration sends its secrets to, and the references that have passed the check against them. */
export interface ReferenceBounds {
  readonly origins: readonly SecretOrigin[];
  readonly found: WeakSet<StoredRecord<'secret_reference'>>;
}

/**
 * The values of an integration's references, in the order of its mappings. A promise only while one has to be fetched.
 * Throws, or rejects with, `credentials_failed` for a reference that is missing, or not allowed for this workspace.
 */
export function referredValues(
  integration: StoredRecord<'integration'>,
  place: ProviderPlace,
  sources: StoredSecrets,
  bounds: ReferenceBounds,
): MaybePromise<readonly string[]> {
  const known: string[] = [];
  let waiting: Promise<string>[] | undefined;
  for (const mapping of integration.data.secretMappings) {
    const value = referredValue(integration.slug, mapping, place, sources, bounds);
    if (waiting !== undefined) waiting.push(Promise.resolve(value));
    else if (isPromise(value)) waiting = [...known.map((one) => Promise.resolve(one)), value];
    else known.push(value);
  }
  return waiting === undefined ? known : Promise.all(waiting);
}

function referredValue(
  slug: string,
  { targetField, secretReferenceId, secretKey }: SecretMapping,
  place: ProviderPlace,
  { directory, box, managers }: StoredSecrets,
  { origins, found }: ReferenceBounds,
): MaybePromise<string> {
  const refusal = (reason: string): GatewayError =>
    new GatewayError(
      'credentials_failed',
      `The integration "${slug}" takes its ${targetField} from a secret reference ${reason}.`,
    );
  if (managers === undefined) throw refusal('that this gateway does not read; give it the secret itself');
  const reference = directory.record('secret_reference', place, secretReferenceId);
  if (reference === undefined) throw refusal('that does not exist any more; name another one');
  if (!isAllowedIn(reference.data, place.workspaceId))
    throw refusal('that this workspace may not use; allow it, or name another one');
  if (!found.has(reference)) {
    const refused = origins.find((origin) => !maySend(reference.data, origin));
    if (refused !== undefined)
      throw refusal(
        `whose secret may not be sent to ${refused.origin}; add the host to its allowed_hosts, or name another one`,
      );
    found.add(reference);
  }
  return managers.value(reference, box, secretKey === '' ? undefined : secretKey);
}

/** All secrets of an integration in plain text: those of its record, and `referred` for its mappings. */
export function openSecrets(
  { id, data, secrets }: StoredRecord<'integration'>,
  referred: readonly string[],
  box: SecretBox,
): ReadonlyMap<string, string> {
  const opened = new Map<string, string>();
  for (const [field, sealed] of Object.entries(secrets))
    opened.set(field, box.open(sealed, secretContext(id, field)));
  data.secretMappings.forEach(({ targetField }, index) => opened.set(targetField, referred[index] ?? ''));
  return opened;
}
