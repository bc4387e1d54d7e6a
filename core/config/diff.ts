import { isDeepStrictEqual } from 'node:util';
import type { GatewayConfig } from './schema.ts';
import { isObject } from './schema-object.ts';
import { listWords } from '../base/did-you-mean.ts';

/** Sections whose changes only a new process can apply. */
const fixedSections = ['server', 'storage', 'retention', 'exports'] as const;

function changedKeys(before: unknown, after: unknown, path: string): string[] {
  if (isDeepStrictEqual(before, after)) return [];
  if (!isObject(before) || !isObject(after)) return [path];
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((key) =>
    changedKeys(before[key], after[key], `${path}.${key}`),
  );
}

/**
 * One sentence that names the settings which changed and need a restart, or undefined when everything that
 * changed can go live. Compare with the configuration that the process started with.
 */
export function restartNeeded(before: GatewayConfig, after: GatewayConfig): string | undefined {
  const keys = fixedSections.flatMap((section) => changedKeys(before[section], after[section], section));
  // Families of metrics keep their labels for as long as they exist.
  keys.push(...changedKeys(before.telemetry.metrics, after.telemetry.metrics, 'telemetry.metrics'));
  if (keys.length === 0) return undefined;
  return `Restart the gateway to apply the new ${listWords(keys, 'and')}; everything else is in use.`;
}
