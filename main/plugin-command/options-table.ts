// A schema as Markdown: for the configuration reference and for `weir plugin docs`.
import { describeSchema } from '../../core/config/describe-schema.ts';
import {
  isObject,
  requiredKeys,
  resolveReference,
  schemaMap,
  unionBranches,
  type SchemaObject,
} from '../../core/config/schema-object.ts';

/** Every option of a plugin as a Markdown table. */
export function optionsTable(schema: SchemaObject): string {
  const found = rows(schema, '', schema);
  return found.length === 0 ? 'It has no options of its own.' : table(found);
}

interface Row {
  readonly key: string;
  readonly expected: string;
  readonly fallback: string;
  readonly description: string;
}

/** Rows as a Markdown table. */
export function table(members: readonly Row[]): string {
  const lines = members.map(
    ({ key, expected, fallback, description }) =>
      `| \`${key}\` | ${cell(expected)} | ${cell(fallback)} | ${cell(description)} |`,
  );
  return ['| Key | Value | Default | |', '| --- | --- | --- | --- |', ...lines].join('\n');
}

/** A text in a cell of a table. */
export function cell(text: string): string {
  return text
    .replaceAll('\\', '\\\\')
    .replaceAll('|', '\\|')
    .replaceAll(/[*_<]/g, '\\$&')
    .replaceAll(/`[^`]*`/g, (code) => code.replaceAll(/\\([*_<\\])/g, '$1'))
    .replaceAll('\n', ' ');
}

const deepest = 6;

/**
 * One row for every key below a schema: `url`, `journal.flush_ms`, `<name>.api_key`, `[].match.path`. A recursive
 * definition (a config's targets are configs) is described once: `around` are the enclosing definitions.
 */
export function rows(
  schema: SchemaObject,
  path: string,
  root: SchemaObject,
  around: readonly SchemaObject[] = [],
): Row[] {
  const resolved = resolveReference(schema, root);
  if (around.length > deepest || around.includes(resolved)) return [];
  const within = [...around, resolved];
  const required = new Set(requiredKeys(resolved));
  const members = [...schemaMap(resolved, 'properties')].flatMap(([name, member]) => {
    const key = path === '' ? name : `${path}.${name}`;
    return [rowOf(key, member, { root, required: required.has(name) }), ...rows(member, key, root, within)];
  });
  const named = [...schemaMap(resolved, 'patternProperties').values()].flatMap((member) =>
    rows(member, `${path}.<name>`, root, within),
  );
  const items = isObject(resolved.items) ? rows(resolved.items, `${path}[]`, root, within) : [];
  const branches = unionBranches(resolved).flatMap((branch) => rows(branch, path, root, within));
  // A union may repeat a key to require it; its first row has the description.
  const all = [...members, ...named, ...items, ...branches];
  return all.filter((row, index) => all.findIndex(({ key }) => key === row.key) === index);
}

function rowOf(
  key: string,
  schema: SchemaObject,
  { root, required }: { root: SchemaObject; required: boolean },
): Row {
  const resolved = resolveReference(schema, root);
  const { default: fallback, description } = { ...resolved, ...schema };
  return {
    key,
    expected: describeSchema(resolved, root),
    fallback: defaultText(fallback, required),
    description: typeof description === 'string' ? description : '',
  };
}

/** The default of a section is that of its keys, which have rows of their own. */
function defaultText(fallback: unknown, required: boolean): string {
  if (fallback === undefined) return required ? 'required' : '';
  const isSection = isObject(fallback) && Object.keys(fallback).length === 0;
  return isSection ? '' : `\`${JSON.stringify(fallback)}\``;
}
