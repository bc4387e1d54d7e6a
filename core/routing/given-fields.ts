import { hostFields } from '../providers/secret-origins.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { RequestContext } from '../pipeline/context.ts';
import { providerFields, templateValue } from '../providers/provider-fields.ts';
import type { Fields, KnownProvider } from './targets.ts';

/** The fields of a request that names none. */
export const noFields: Fields = Object.freeze({});
const fieldsByHeader = new Map(providerFields.map((field) => [field.header, field]));

/** The provider's fields that the request's own headers hold. Throws `invalid_header` for one that cannot be part of an address. */
export function givenFields(context: RequestContext, headerPrefix: string): Fields {
  let found: Record<string, string> | undefined;
  for (const name of context.serviceNames()) {
    const field = fieldsByHeader.get(name);
    const value = field === undefined ? undefined : context.service(name);
    if (field === undefined || value === undefined || value === '') continue;
    if (field.template && !templateValue.test(value)) {
      throw new GatewayError(
        'invalid_header',
        `${headerPrefix}-${name} may hold letters, digits and hyphens, 63 at the most.`,
        { param: field.name },
      );
    }
    (found ??= {})[field.name] = value;
  }
  return found ?? noFields;
}

/** Fields that hold a whole address, by the row that they belong to. */
const addressFields: Readonly<Record<string, string>> = {
  huggingface: 'huggingface_base_url',
  'azure-ai': 'azure_foundry_url',
};

/** The whole address among the fields; undefined for none. */
export function givenAddress(provider: KnownProvider, given: Fields): string | undefined {
  const field = addressFields[provider.name];
  return field === undefined ? undefined : given[field];
}

/** A credential of the operator's config goes to no host that the headers of a request choose. */
export function requireOwnAddress(provider: KnownProvider, given: Fields, own: Fields): void {
  if (given === noFields) return;
  const address = addressFields[provider.name];
  const deciding = hostFields(provider.row.base_url ?? '');
  for (const name of address === undefined ? deciding : [...deciding, address]) {
    if (given[name] === undefined || own[name] !== undefined) continue;
    throw new GatewayError(
      'invalid_header',
      `The config of the gateway holds a credential for "${provider.name}", so no header may choose its host. Leave ${name.replaceAll('_', '-')} out of the headers; the operator can set ${name} in the config.`,
      { param: name },
    );
  }
}
