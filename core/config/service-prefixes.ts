import type { GatewayConfig } from './schema.ts';

/** What the gateway's own headers begin with, each with its dash (`x-service-`), the preferred one first. */
export function servicePrefixes({
  header_prefix: prefix,
  header_aliases: aliases,
}: Pick<GatewayConfig['server'], 'header_prefix' | 'header_aliases'>): string[] {
  return [prefix, ...aliases].map((one) => `${one}-`);
}
