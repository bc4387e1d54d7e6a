import { GatewayError } from '../../core/errors/gateway-error.ts';

const away = new Set(['store_unavailable', 'query_timeout', 'overloaded', 'shutting_down']);
const longestSentence = 300;
/** A cause has a cause …: bounded, because an error may be its own. */
const deepest = 5;

/** True for an error of the system with one of these codes (`ENOENT`, …). */
export function hasCode(error: unknown, ...codes: readonly string[]): boolean {
  const code = codeOf(error);
  return code !== undefined && codes.includes(code);
}

/**
 * True when the store could not be asked, so that the same rows may succeed later: an error of the gateway that
 * says so, or anything that carries a code in letters (`ECONNRESET`, `UND_ERR_SOCKET`, `CERT_HAS_EXPIRED`), as
 * those of the system and the network do. Everything else is about the rows.
 */
export function isStoreAway(error: unknown): boolean {
  if (GatewayError.is(error)) return away.has(error.code);
  let current = error;
  for (let depth = 0; depth < deepest && current instanceof Error; depth += 1) {
    if (current.name === 'AbortError' || current.name === 'TimeoutError') return true;
    if (/^[A-Z][A-Z0-9_]+$/.test(codeOf(current) ?? '')) return true;
    current = current.cause;
  }
  return false;
}

/** The error in one bounded line. */
export function sentenceOf(error: unknown): string {
  const text = error instanceof Error ? error.message || error.name : String(error);
  const line = text.replace(/\s+/g, ' ').trim();
  return line.length > longestSentence ? `${line.slice(0, longestSentence)}…` : line;
}

function codeOf(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}
