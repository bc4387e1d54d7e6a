import { isSecretName } from '../config/ajv.ts';
import { isStorable } from './storable-text.ts';

const maxDepth = 32;
const mask = '***';

/**
 * The same value with everything masked that stands under the name of a secret (`api_key`, `apiKey`, `authorization`),
 * at any depth. Integers beyond 2^53 become their digits; what lies more than 32 levels deep is left out.
 */
export function maskSecrets(value: unknown): unknown {
  return masked(value, 0);
}

function masked(value: unknown, depth: number): unknown {
  if (typeof value === 'bigint') return String(value);
  if (typeof value === 'string') return storable(value);
  if (typeof value !== 'object' || value === null) return value;
  if (depth === maxDepth) return '…';
  if (Array.isArray(value)) return value.map((item) => masked(item, depth + 1));
  // A name like __proto__ must become a member like any other.
  const copy = Object.create(null) as Record<string, unknown>;
  for (const [name, member] of Object.entries(value)) {
    copy[storable(name)] = isSecretName(name) ? mask : masked(member, depth + 1);
  }
  return copy;
}

function storable(text: string): string {
  if (isStorable(text)) return text;
  return Buffer.from(text.replaceAll('\0', '\ufffd'), 'utf8').toString('utf8');
}
