// Composition root: `weir schema`.
import { configJsonSchema } from '../core/config/json-schema.ts';
import { builtInPlugins } from '../plugins/index.ts';

/** Prints the JSON Schema of configurations, for editors; returns the exit code. */
export function printSchema(): number {
  console.log(JSON.stringify(configJsonSchema(builtInPlugins), null, 2));
  return 0;
}
