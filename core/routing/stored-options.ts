import { compileSchema } from '../config/ajv.ts';
import type { GatewayConfig } from '../config/schema.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import { parseJson } from '../base/json.ts';
import { providerFieldProperties, providerFields, templateValue } from '../providers/provider-fields.ts';
import { ProviderRowSchema, type ProviderRow } from '../providers/provider-row.ts';
import type { StoredRecord } from '../ports/records.ts';

/** Options of `providers:` in the configuration, which an integration has as well. */
export type ProviderOptions = GatewayConfig['providers'][string];

/** Secret values of an integration by their fields: `key`, `configurations.<field>`, `models.<slug>.headers`. */
export type OpenedSecrets = ReadonlyMap<string, string>;

const inConfigurations = 'configurations.';
const checkRow = compileSchema(ProviderRowSchema);

/**
 * The settings of an integration as options of `providers:`. Settings that are no such option are left out. Throws
 * `provider_disabled` for what could not be written in the configuration either.
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
  // What people of an organisation set up keeps the name of the provider, by which it is priced and counted.
  return { ...found, service: row.service ?? data.aiProviderId };
}

/** Headers that are kept as one secret. Throws `provider_disabled`. */
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

/** The refusal of requests to an integration that nothing can be made of. */
export function unusable(integration: string, reason: string): GatewayError {
  return new GatewayError(
    'provider_disabled',
    `The integration "${integration}" cannot be used: ${reason}. Correct it through the administration.`,
    { param: 'provider' },
  );
}
