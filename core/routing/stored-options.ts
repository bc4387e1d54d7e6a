import { compileSchema } from '../config/ajv.ts';
import type { GatewayConfig } from '../config/schema.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import { parseJson } from '../base/json.ts';
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
export type ProviderOptions = GatewayConfig['providers'][string];

/** Secret values of an integration by their fields: `key`, `configurations.<field>`, `models.<slug>.headers`. */
export type OpenedSecrets = ReadonlyMap<string, string>;

const inConfigurations = 'configurations.';
const checkRow = compileSchema(ProviderRowSchema);

/**
 * The settings of an integration as options of `providers:`. Other settings are left out. Throws `provider_disabled` for
 * settings that would be invalid in the configuration, too.
 */
export function storedOptions(
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
export function headersOf(text: string, integration: string): Record<string, string> {
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
