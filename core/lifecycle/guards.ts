import { Type } from 'typebox';
import { compileSchema } from '../config/ajv.ts';
import type { AnyPlugin } from '../pipeline/plugin.ts';
import type { CheckIssue, Guards } from '../organisation/guardrails.ts';

const mostExplained = 20;
const withoutOptions = Type.Object({}, { additionalProperties: false });

/** The checks that these plugins do: those that are guardrails. */
export function guardsOf(plugins: Iterable<AnyPlugin>): Guards {
  const byId = new Map<string, AnyPlugin>();
  for (const plugin of plugins) {
    if (plugin.capabilities?.guardrail !== true) continue;
    for (const id of [plugin.name, ...(plugin.checks ?? [])]) byId.set(id, plugin);
  }
  return {
    ids: [...byId.keys()].sort(),
    issues(id, parameters): readonly CheckIssue[] | undefined {
      const plugin = byId.get(id);
      if (plugin === undefined) return undefined;
      const check = compileSchema(plugin.schema ?? withoutOptions, { all: true, most: mostExplained });
      return check(parameters).map(({ path, message }) => ({ path, message }));
    },
  };
}
