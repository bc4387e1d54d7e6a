// Writes docs/config-reference.md from the schemas; with --check it only compares, and fails when they differ.
import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { format, resolveConfig } from 'prettier';
import {
  describeSchema,
  schemaMap,
  schemaObject,
  type SchemaObject,
} from '../core/config/describe-schema.ts';
import type { DescribedPlugin } from '../core/config/json-schema.ts';
import { ReservedOptionsSchema } from '../core/config/plugin-entries.ts';
import { GatewayConfigSchema } from '../core/config/schema.ts';
import { references } from '../main/plugin-command/plugin-reference.ts';
import { builtInPlugins } from '../plugins/index.ts';

const target = fileURLToPath(new URL('../docs/config-reference.md', import.meta.url));
const command = 'node --import tsx scripts/generate-config-reference.ts';

const introduction = `# Configuration reference

<!-- Generated from the schemas by \`${command}\`. Change the schemas, not this file. -->

One YAML 1.2 file describes a gateway: \`gateway.config.yaml\`. \`weir check FILE\` reports everything that is wrong
with it and starts nothing; \`weir schema\` prints its JSON Schema for editors. A running gateway applies changes
by itself; what is wrong keeps the old configuration serving.

**Keys.** An unknown key is an error. \`max_age\` and \`maxAge\` are the same key; giving both is an error.

**Variables** are replaced in values, never in keys and never in the YAML text itself, so that their content cannot
become structure:

| Written | Becomes |
| --- | --- |
| \`\${NAME}\` | the environment variable; it is an error when it is not set |
| \`\${NAME:-default}\` | the default when the variable is not set or empty |
| \`\${file:secrets/key.txt}\` | the content of a file of at most 64 KiB, relative to the YAML file, without its last line break |
| \`$\${\` | the characters \`\${\` themselves |

A value that is one placeholder and nothing else is turned into a number or boolean where the key wants one. Values
that come from variables are not shown in messages, and are not part of the configuration's hash.

**Several files.** \`include\` takes names and patterns relative to the file that holds it: \`*\` and \`?\` stand for
characters of a name, \`**\` for any number of directories. Keys are merged and lists appended, in the order of
reading: first the including file, then the included ones, those of a pattern by name. Two different values for one key are an error.
`;

/** The whole reference as Markdown, formatted, for these plugins in this order. */
export async function configReference(plugins: readonly DescribedPlugin[]): Promise<string> {
  const sections = [...schemaMap(schemaObject(GatewayConfigSchema), 'properties')].map(
    ([name, schema]) => `## \`${name}\`\n\n${sectionText(name, schema)}`,
  );
  const text = [
    introduction,
    ...sections,
    '## Plugins',
    `Every plugin takes these options beside its own:\n\n${references.optionsTable(schemaObject(ReservedOptionsSchema))}`,
    ...plugins.map(pluginText),
  ].join('\n\n');
  return format(text, { ...(await resolveConfig(target)), parser: 'markdown' });
}

function sectionText(name: string, schema: SchemaObject): string {
  const description = typeof schema.description === 'string' ? schema.description : '';
  const members = references.rows(schema, name, schema);
  const own =
    members.length === 0
      ? `Expected: ${references.cell(describeSchema(schema, schema))}.`
      : references.table(members);
  return [description, own].filter((part) => part !== '').join('\n\n');
}

function pluginText({ name, description, schema }: DescribedPlugin): string {
  const options =
    schema === undefined ? 'It has no options of its own.' : references.optionsTable(schemaObject(schema));
  return [`### \`${name}\``, description ?? '', options].filter((part) => part !== '').join('\n\n');
}

async function main(): Promise<number> {
  const text = await configReference(builtInPlugins);
  if (!process.argv.includes('--check')) {
    await writeFile(target, text);
    return 0;
  }
  const present = await readFile(target, 'utf8').catch(() => '');
  if (present === text) return 0;
  console.error(`docs/config-reference.md is not what the schemas say; run \`${command}\`.`);
  return 1;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exitCode = await main();
