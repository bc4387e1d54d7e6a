import type { Problem } from '../config/problem.ts';
import { bounded } from './bounded.ts';
import type { PrepareInput, PreparedPlugin } from './prepare.ts';
import { problemAt } from './problem-at.ts';

const longestMs = 10_000;

/** What the plugin's own `check` finds wrong with its options, each where it stands; that it failed is a problem too. */
export async function optionFaults(
  { definition, options, entry }: PreparedPlugin,
  { source, clock }: Pick<PrepareInput, 'source' | 'clock'>,
): Promise<Problem[]> {
  if (definition.check === undefined) return [];
  const late = (): Error => new Error(`it has not finished within ${longestMs} ms; check what it waits for`);
  try {
    const found: unknown = await bounded(() => definition.check?.(options), { clock, ms: longestMs, late });
    return faultsIn(found).map(({ path, message }) => {
      const pointer = `${entry.optionsPointer}${path}`;
      return problemAt(source.locate(pointer, 'value'), pointer, message);
    });
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const message = `the options of plugin "${definition.name}" could not be checked: ${reason}`;
    return [problemAt(source.locate(entry.pointer, 'value'), entry.pointer, message)];
  }
}

/** Plugins may come from modules that no type checker has seen. */
function faultsIn(found: unknown): { readonly path: string; readonly message: string }[] {
  const faults: unknown[] | undefined = Array.isArray(found) ? found : undefined;
  if (faults === undefined)
    throw new Error('its check must return a list of { path, message }, or an empty one');
  return faults.map((fault) => {
    const { path, message } = Object(fault) as Readonly<Record<string, unknown>>;
    if (typeof path === 'string' && typeof message === 'string') return { path, message };
    throw new Error('its check must return each fault as { path, message }, both texts');
  });
}
