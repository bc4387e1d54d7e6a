import { GatewayError } from '../../core/pipeline/plugin.ts';

const maxNamed = 10;

/** Slugs of what uses something, by what messages call them: `MCP servers`. */
export type Users = Readonly<Record<string, readonly string[]>>;

/** Throws `resource_conflict`, naming ten of each kind and counting the rest, unless nothing uses it. */
export function requireNoUsers(what: string, users: Users, remedy: string): void {
  const named = Object.entries(users).filter(([, slugs]) => slugs.length > 0);
  if (named.length === 0) return;
  const kinds = named.map(([kind, slugs]) => `the ${kind} ${listed(slugs)}`);
  throw new GatewayError('resource_conflict', `${what} is in use by ${kinds.join(' and ')}. ${remedy}`);
}

function listed(slugs: readonly string[]): string {
  const shown = slugs.slice(0, maxNamed).map((slug) => `"${slug}"`);
  const more = slugs.length - shown.length;
  return `${shown.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}
