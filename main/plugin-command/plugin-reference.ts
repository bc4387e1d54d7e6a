import type { AnyPlugin, Hooks } from '../../core/pipeline/plugin.ts';
import {
  describeSchema,
  requiredKeys,
  resolveReference,
  schemaMap,
  schemaObject,
  type SchemaObject,
  unionBranches,
} from '../../core/config/describe-schema.ts';
import { isJsonObject } from '../../core/base/json.ts';

/** Writes the reference of a plugin. */
export const references = { plugin: pluginReference, optionsTable, table, cell, rows };

const hookSays: Readonly<Record<keyof Omit<Hooks, 'routes'>, string>> = {
  admit: 'once per request, before anything is read',
  request: 'once per request',
  attempt: 'once per attempt at a provider',
  attempted: 'on what the provider answered to an attempt',
  response: 'on a whole answer before it leaves',
  stream: 'on each event of a streamed answer',
  keepsCall: 'before each request to a provider',
  settled: 'once, after the last byte',
  retiring: 'once, when no new request will come',
};

/** The reference of a plugin as Markdown. `hooks`: the result of `create`; undefined when it was not called. */
function pluginReference(definition: AnyPlugin, hooks: Hooks | undefined): string {
  const { name, description, apiVersion = 1, schema } = definition;
  const options = schema === undefined ? 'It has no options of its own.' : optionsTable(schemaObject(schema));
  return [
    `# ${name}`,
    description ?? '',
    `Written for version ${apiVersion} of the plugin contract.`,
    '## Options',
    options,
    '`on_error` (`fail`, `skip`) and `timeout_ms` are options of every plugin.',
    '## In the pipeline',
    capabilities(definition),
    hooks === undefined
      ? 'Hooks and routes are told where options are given (`weir plugin docs FILE --options JSON`).'
      : hooksText(hooks),
    ...checks(definition),
  ]
    .filter((part) => part !== '')
    .join('\n\n');
}

function capabilities({ capabilities: given = {} }: AnyPlugin): string {
  const lines = Object.entries(given).map(([name, value]) => {
    const text = Array.isArray(value) ? value.join(', ') : String(value);
    return `| \`${name}\` | ${cell(text)} |`;
  });
  return lines.length === 0
    ? 'It declares no capabilities.'
    : ['| Capability | |', '| --- | --- |', ...lines].join('\n');
}

function hooksText(hooks: Hooks): string {
  const found = Object.entries(hookSays).filter(
    ([name]) => hooks[name as keyof typeof hookSays] !== undefined,
  );
  const list =
    found.length === 0
      ? 'It has no hooks.'
      : found.map(([name, says]) => `- \`${name}\`: ${says}`).join('\n');
  const routes = hooks.routes ?? [];
  if (routes.length === 0) return list;
  const lines = routes.map(({ method, path, scope, summary }) => {
    const scopes = typeof scope === 'string' ? scope : scope.join(' or ');
    return `| \`${method} ${path}\` | \`${scopes}\` | ${cell(summary)} |`;
  });
  return [list, '', '## Routes', '', '| Route | Scope | |', '| --- | --- | --- |', ...lines].join('\n');
}

function checks({ offers = [] }: AnyPlugin): string[] {
  if (offers.length === 0) return [];
  const offered = offers.map(({ id, aliases = [], description, phases, schema }) =>
    [
      `### \`${id}\``,
      description,
      `Asked of: ${phases.join(', ')}.${aliases.length === 0 ? '' : ` Also called ${aliases.join(', ')}.`}`,
      optionsTable(schemaObject(schema)),
    ].join('\n\n'),
  );
  return ['## Checks', ...offered];
}

// A schema as Markdown: for the configuration reference and for `weir plugin docs`.

/** Every option of a plugin as a Markdown table. */
function optionsTable(schema: SchemaObject): string {
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
function table(members: readonly Row[]): string {
  const lines = members.map(
    ({ key, expected, fallback, description }) =>
      `| \`${key}\` | ${cell(expected)} | ${cell(fallback)} | ${cell(description)} |`,
  );
  return ['| Key | Value | Default | |', '| --- | --- | --- | --- |', ...lines].join('\n');
}

/** A text in a cell of a table. */
function cell(text: string): string {
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
function rows(
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
  const items = isJsonObject(resolved.items) ? rows(resolved.items, `${path}[]`, root, within) : [];
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
  const isSection = isJsonObject(fallback) && Object.keys(fallback).length === 0;
  return isSection ? '' : `\`${JSON.stringify(fallback)}\``;
}
