import { isDeepStrictEqual } from 'node:util';
import type { GatewayConfig } from './schema.ts';
import { listWords } from '../base/did-you-mean.ts';
import { isJsonObject } from '../base/json.ts';

/** Sections whose changes need a restart. */
const fixedSections = ['server', 'storage', 'retention', 'exports'] as const;

function changedKeys(before: unknown, after: unknown, path: string): string[] {
  if (isDeepStrictEqual(before, after)) return [];
  if (!isJsonObject(before) || !isJsonObject(after)) return [path];
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((key) =>
    changedKeys(before[key], after[key], `${path}.${key}`),
  );
}

/**
 * One sentence that names the changed settings which need a restart, or undefined for none. Compare with the
 * configuration at the start of the process.
 */
export function restartNeeded(before: GatewayConfig, after: GatewayConfig): string | undefined {
  const keys = fixedSections.flatMap((section) => changedKeys(before[section], after[section], section));
  // Metric families keep their labels for their lifetime.
  keys.push(...changedKeys(before.telemetry.metrics, after.telemetry.metrics, 'telemetry.metrics'));
  if (keys.length === 0) return undefined;
  return `Restart the gateway to apply the new ${listWords(keys, 'and')}; everything else is in use.`;
}
