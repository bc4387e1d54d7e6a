import { scopesByType } from '../../core/access/scopes.ts';

const possible = scopesByType['workspace-user'];
/** Every token may see what workspace keys may see. */
const readAndList: readonly string[] = [...possible].filter((scope) => /\.(read|list)$/.test(scope));

/** The scope in its own spelling, if workspace keys may hold it; undefined otherwise. */
export function tokenScope(written: string, prefixes: readonly string[]): string | undefined {
  const scope = written.replaceAll(':', '.');
  if (possible.has(scope)) return scope;
  const dot = scope.indexOf('.');
  const rest = scope.slice(dot + 1);
  return dot > 0 && prefixes.includes(scope.slice(0, dot)) && possible.has(rest) ? rest : undefined;
}

/** These scopes, and all those of reading and listing. */
export function withReading(scopes: Iterable<string>): readonly string[] {
  return [...new Set([...scopes, ...readAndList])];
}
