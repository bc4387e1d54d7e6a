import { schemaObject } from '../../core/config/schema-object.ts';
import type { AnyPlugin, Hooks } from '../../core/pipeline/plugin.ts';
import { cell, optionsTable } from './options-table.ts';

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
export function pluginReference(definition: AnyPlugin, hooks: Hooks | undefined): string {
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
