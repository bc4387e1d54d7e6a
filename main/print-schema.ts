// Composition root: the JSON Schema of configurations, for editors.
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { writeDurably } from '../core/base/durable-file.ts';
import { configJsonSchema } from '../core/config/json-schema.ts';
import { builtInPlugins } from '../plugins/index.ts';

function schemaText(): string {
  return `${JSON.stringify(configJsonSchema(builtInPlugins), null, 2)}\n`;
}

/** `weir schema`: prints it; returns the exit code. */
export function printSchema(): number {
  process.stdout.write(schemaText());
  return 0;
}

/**
 * Keeps `gateway.schema.json` in the data folder, so that the first line of the shipped configuration leads editors to the
 * schema of the version that runs.
 */
export async function keepSchema(data: string): Promise<void> {
  const file = path.join(data, 'gateway.schema.json');
  const text = schemaText();
  if ((await readFile(file, 'utf8').catch(() => '')) !== text) await writeDurably(file, text);
}
