import { TrustedHosts } from '../base/host-rules.ts';
import { regionFields, templateFields } from './provider-fields.ts';
import type { ProviderRow } from './provider-row.ts';
import type { IntegrationData, SecretReferenceData } from '../ports/record-kinds.ts';
import { fillBaseUrl } from './base-url.ts';

/** An origin of requests, which receives the secrets of a record. */
export interface SecretOrigin {
  /** `https://api.openai.com`. A field without a value remains as `{field}`. */
  readonly origin: string;
  /** Whether the provider table names the host, except for a region. */
  readonly isOfTable: boolean;
}

/** Destinations of an integration's secrets. */
interface SecretOrigins {
  readonly own: SecretOrigin;
  /** By slug, for models with an address of their own. */
  readonly models: ReadonlyMap<string, SecretOrigin>;
}

/** Origins of an integration and of its models, enabled or not. */
export function originsOf(
  { configurations, models }: Pick<IntegrationData, 'configurations' | 'models'>,
  row: ProviderRow,
): SecretOrigins {
  const hosts = new Map<string, SecretOrigin>();
  for (const { slug, configurations: own } of models) {
    const host = own['custom_host'];
    if (typeof host === 'string') hosts.set(slug, originOf(host));
  }
  const { base_url: base, azure_foundry_url: foundry, huggingface_base_url: endpoint } = configurations;
  const address = [base, foundry, endpoint].find((one) => typeof one === 'string');
  return {
    own: address === undefined ? filledOrigin(row.base_url ?? '', configurations) : originOf(address),
    models: hosts,
  };
}

/** Origin of a given address. */
export function originOf(address: string): SecretOrigin {
  return { origin: URL.canParse(address) ? new URL(address).origin : address, isOfTable: false };
}

/** All origins, without duplicates. */
export function allOrigins({ own, models }: SecretOrigins): readonly SecretOrigin[] {
  return [...new Map([own, ...models.values()].map((one) => [one.origin, one])).values()];
}

/**
 * Origins that receive the secret of this field (`key`, `configurations.<option>`, `models.<slug>.headers`): headers of
 * a model go to the model's origin, everything else to all.
 */
export function originsOfField(field: string, origins: SecretOrigins): readonly SecretOrigin[] {
  if (!field.startsWith('models.')) return allOrigins(origins);
  return [origins.models.get(field.slice('models.'.length, -'.headers'.length)) ?? origins.own];
}

/** Fields in the host part of a `base_url`. */
export function hostFields(baseUrl: string): readonly string[] {
  return templateFields(authorityOf(baseUrl));
}

function filledOrigin(baseUrl: string, configurations: IntegrationData['configurations']): SecretOrigin {
  const authority = authorityOf(baseUrl);
  const names = templateFields(authority);
  if (names.length === 0) return { origin: authority, isOfTable: true };
  const fields: Record<string, string> = {};
  for (const name of names) {
    const value = configurations[name];
    fields[name] = typeof value === 'string' && value !== '' ? value : `{${name}}`;
  }
  return {
    origin: fillBaseUrl(authority, fields, { provider: '', headerPrefix: '' }).toLowerCase(),
    isOfTable: names.every((name) => regionFields.has(name)),
  };
}

function authorityOf(baseUrl: string): string {
  return /^[a-z]+:\/\/[^/]+/i.exec(baseUrl)?.[0] ?? baseUrl;
}

/**
 * Whether the secret of a reference may be sent to an origin: one of its `allowed_hosts`, or a host of the provider
 * table when that list is empty. References older than `allowed_hosts` are bound to no host.
 */
export function maySend({ allowedHosts }: SecretReferenceData, { origin, isOfTable }: SecretOrigin): boolean {
  if (allowedHosts === undefined) return true;
  if (allowedHosts.length === 0) return isOfTable;
  if (!URL.canParse(origin)) return false;
  const url = new URL(origin);
  const isPlain = url.protocol === 'http:';
  const entries = allowedHosts
    .filter((entry) => entry.startsWith(withoutTls) === isPlain)
    .map((entry) => (isPlain ? entry.slice(withoutTls.length) : entry));
  return new TrustedHosts(entries).has(url);
}

const withoutTls = 'http://';
