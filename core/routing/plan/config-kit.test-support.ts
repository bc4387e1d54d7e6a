import assert from 'node:assert/strict';
import type { RouteConfigInput } from '../../organisation/route-config.ts';
import { compileConfig } from './compile-config.ts';
import type { CompiledConfig, PlanLeaf } from './plan-node.ts';
import { providerLookup, parseInlineConfig } from './read-config.ts';

/** Built in are `openai` and `anthropic`; `openai-prod` and `claude-prod` are configured. */
export const knowsProvider = providerLookup({
  builtIn: ['openai', 'anthropic', 'azure-openai'],
  configured: ['openai-prod', 'claude-prod'],
});

/** A config after validation by the schema. */
export function checked(config: unknown): RouteConfigInput {
  const parsed = parseInlineConfig(JSON.stringify(config));
  if (!parsed.ok) throw new assert.AssertionError({ message: JSON.stringify(parsed.issues) });
  return parsed.config;
}

/** Compiles a config next to others by name; `self` is its own name among them. */
export function compile(
  config: unknown,
  others: Readonly<Record<string, unknown>> = {},
  self?: string,
): ReturnType<typeof compileConfig> {
  const configs = new Map(Object.entries(others).map(([slug, each]) => [slug, checked(each)]));
  const input = checked(config);
  if (self !== undefined) configs.set(self, input);
  return compileConfig(input, { id: 'test', slug: self, configs, knowsProvider });
}

/** The compiled form of a config that must be valid. */
export function compiled(config: unknown, others?: Readonly<Record<string, unknown>>): CompiledConfig {
  const result = compile(config, others);
  assert.deepEqual(result.ok ? [] : result.issues, []);
  assert.ok(result.ok);
  return result.config;
}

/** The leaves of a config that must be valid, by path. */
export function leavesOf(config: unknown, others?: Readonly<Record<string, unknown>>): Map<string, PlanLeaf> {
  return new Map(compiled(config, others).leaves.map((leaf) => [leaf.path, leaf]));
}

/** Issues of a config, as `path: message`. */
export function issuesOf(
  config: unknown,
  others?: Readonly<Record<string, unknown>>,
  self?: string,
): string[] {
  const result = compile(config, others, self);
  return result.ok ? [] : result.issues.map(({ path, message }) => `${path}: ${message}`);
}
