// Providers and keys of Bifrost as one config that chooses by the model.
import type { JsonObject } from '../../core/base/json.ts';
import type { Written } from './draft.ts';
import { escapeRegex } from './litellm-hosts.ts';
import { importSources } from './source.ts';

/** One key of a provider. */
export interface HostKey {
  readonly id: string;
  readonly slug: string;
  readonly weight: number;
  /** Undefined: every model. */
  readonly models: readonly string[] | undefined;
  readonly aliases: JsonObject;
}

/** A provider of the file, with what its targets share. */
export interface Host {
  readonly name: string;
  readonly keys: readonly HostKey[];
  readonly settings: Written;
}

/** A config that chooses host and key by the model, which is `provider/model` or one that a key names. */
export function choiceOf(hosts: readonly Host[]): Written {
  const conditions: Written[] = [];
  const targets: Written[] = [];
  const add = (name: string, query: Written, target: Written): void => {
    conditions.push({ query, then: name });
    targets.push({ ...target, name });
  };
  for (const { name, keys, settings } of hosts) {
    const prefix = `${name}/`;
    /** Models by the keys that serve them under which names. */
    const groups = new Map<string, { models: string[]; keys: HostKey[] }>();
    for (const model of new Set(keys.flatMap(({ models = [] }) => models))) {
      const serving = keys.filter(({ models }) => models === undefined || models.includes(model));
      const renamed = serving.some(
        ({ aliases }) => (importSources.textOf(aliases[model]) || model) !== model,
      );
      const identity = JSON.stringify([serving.map(({ slug }) => slug), renamed ? model : '']);
      const group = groups.get(identity) ?? { models: [], keys: serving };
      group.models.push(model);
      groups.set(identity, group);
    }
    for (const group of groups.values()) {
      const names = group.models.flatMap((model) => [prefix + model, model]);
      const [only] = group.models;
      const target = (key: HostKey): Written => {
        const alias = only === undefined ? '' : importSources.textOf(key.aliases[only]);
        return group.models.length === 1 && alias !== '' && alias !== only
          ? { override_params: { model: alias } }
          : { model_prefix: { remove: prefix } };
      };
      add(
        `${name}: ${names[1]}`,
        { 'params.model': { $in: names } },
        { ...settings, ...spread(group.keys, target) },
      );
    }
    const open = keys.filter(({ models }) => models === undefined);
    if (open.length > 0)
      add(
        name,
        { 'params.model': { $regex: `^${escapeRegex(prefix)}` } },
        { ...settings, ...spread(open, () => ({ model_prefix: { remove: prefix } })) },
      );
  }
  const bare = hosts.find(({ keys }) => keys.some(({ models }) => models === undefined));
  if (bare !== undefined && hosts.length === 1) {
    add(
      'any model',
      { 'params.model': { $regex: '.' } },
      {
        ...bare.settings,
        ...spread(
          bare.keys.filter(({ models }) => models === undefined),
          () => ({}),
        ),
      },
    );
  }
  return { strategy: { mode: 'conditional', conditions }, targets };
}

function spread(keys: readonly HostKey[], more: (key: HostKey) => Written): Written {
  const [first, ...others] = keys;
  if (first === undefined) return {};
  if (others.length === 0) return { provider: `@${first.slug}`, ...more(first) };
  const targets = keys.map((key) => ({
    provider: `@${key.slug}`,
    ...(key.weight !== 1 && { weight: key.weight }),
    ...more(key),
  }));
  return { strategy: { mode: 'loadbalance' }, targets };
}
