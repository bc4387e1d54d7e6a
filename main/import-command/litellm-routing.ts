// Groups of models, fallbacks and router settings of LiteLLM, as one config that chooses by the model of a request.
import { quoted } from '../../core/base/did-you-mean.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../core/base/json.ts';
import type { TargetDraft, Written } from './draft.ts';
import type { Deployment, ImportParts } from './litellm-models.ts';
import { capturedBy, escapeRegex } from './litellm-hosts.ts';
import type { SourceReport } from './report.ts';
import { importSources, type SourcePath } from './source.ts';

/** Name of the config that every request uses. */
const rootConfig = 'litellm';

const usualRetries = 2;
/** Most targets of the root config, references followed. */
const maxTargets = 256;
/** What another deployment of the group is asked after: LiteLLM retries these. */
const retriedStatuses = [401, 403, 408, 409, 429, 500, 502, 503, 504, 529];
const tooLongStatuses = [400, 413];
const shortestCooldownMs = 30_000;

/** A value of the settings, with its place. */
interface Setting {
  readonly value: JsonValue;
  readonly at: SourcePath;
}

/** A fallback of a group: the groups to ask next. */
interface Fallback {
  readonly to: readonly string[];
  readonly at: SourcePath;
  /** `context`: after requests that are too long alone. */
  readonly kind: 'any' | 'context';
}

/** Writes the configs; the groups that requests may ask for, by config name, go into the root config. */
export function writeRouting(parts: ImportParts, deployments: readonly Deployment[]): void {
  new Routing(parts, deployments).write();
}

class Routing {
  readonly #parts: ImportParts;
  readonly #told: SourceReport;
  readonly #groups = new Map<string, Deployment[]>();
  readonly #router: JsonObject;
  readonly #litellm: JsonObject;
  /** Config with the deployments of a group, by the group. */
  readonly #balanced = new Map<string, string>();
  readonly #leaves = new Map<string, number>();
  readonly #strategy: string;
  readonly #retries: number;

  constructor(parts: ImportParts, deployments: readonly Deployment[]) {
    this.#parts = parts;
    this.#told = parts.told;
    for (const one of deployments) this.#groups.set(one.group, [...(this.#groups.get(one.group) ?? []), one]);
    const root = isJsonObject(parts.source.value) ? parts.source.value : {};
    this.#router = importSources.objectOf(root['router_settings']);
    this.#litellm = importSources.objectOf(root['litellm_settings']);
    this.#strategy = this.#readStrategy();
    this.#retries = this.#readRetries();
  }

  write(): void {
    const { draft } = this.#parts;
    const root: Written = { strategy: { mode: 'conditional', conditions: [] }, targets: [] };
    // It stands first in the file.
    draft.configs[rootConfig] = root;
    this.#settings(root);
    const fallbacks = this.#readFallbacks();
    const aliases = this.#readAliases();
    for (const group of fallbacks.keys())
      if (!this.#groups.has(group) && this.#resolve(group) !== undefined) this.#addResolved(group);
    const conditions: Written[] = [];
    const targets: Written[] = [];
    let leaves = 0;
    for (const group of this.#inOrder()) {
      const { name, count } = this.#groupConfig(group, fallbacks.get(group) ?? []);
      leaves += count;
      if (leaves > maxTargets) {
        leaves -= count;
        this.#told.missing(
          this.#groups.get(group)?.[0]?.at ?? [],
          `is written as the config ${quoted(name)} and chosen by x-service-config: a config has at most ${maxTargets} targets`,
        );
        continue;
      }
      conditions.push({ query: this.#query(group, aliases.get(group) ?? []), then: group });
      targets.push({ name: group, config: name });
    }
    const uploads = this.#uploads();
    if (uploads !== undefined) {
      conditions.push(uploads.condition);
      targets.push(uploads.target);
    }
    root['strategy'] = { mode: 'conditional', conditions };
    root['targets'] = targets;
    if (targets.length === 0) {
      delete draft.configs[rootConfig];
      draft.provider['default'] = 'mock';
      this.#told.changed(
        [],
        'no model of this file can be served; requests that name no provider go to the built-in mock',
      );
    } else draft.provider['config'] = rootConfig;
  }

  /** Exact names before patterns, longer patterns before shorter ones. */
  #inOrder(): readonly string[] {
    const rank = (name: string): number => (name.includes('*') ? 1 : 0);
    return [...this.#groups.keys()].toSorted(
      (one, other) => rank(one) - rank(other) || (rank(one) === 1 ? other.length - one.length : 0),
    );
  }

  #query(group: string, aliases: readonly string[]): Written {
    if (group === '*') return { 'params.model': { $regex: '.' } };
    if (group.includes('*'))
      return { 'params.model': { $regex: `^${group.split('*').map(escapeRegex).join('.*')}$` } };
    return { 'params.model': aliases.length === 0 ? group : { $in: [group, ...aliases] } };
  }

  /** The config of a group, with its fallbacks. */
  #groupConfig(group: string, fallbacks: readonly Fallback[]): { name: string; count: number } {
    const { draft } = this.#parts;
    const own = this.#balancedConfig(group, fallbacks.length > 0);
    const count = this.#leaves.get(own) ?? 1;
    const next: string[] = [];
    for (const { to, at } of fallbacks)
      for (const other of to) {
        if (other === group) continue;
        const found = this.#balancedOf(other);
        if (found === undefined)
          this.#told.missing(at, `${quoted(other)} is no model of this file, and is left out`);
        else if (!next.includes(found)) next.push(found);
      }
    if (next.length === 0) return { name: own, count };
    const isForLength = fallbacks.every(({ kind }) => kind === 'context');
    const strategy = { mode: 'fallback', ...(isForLength && { on_status_codes: tooLongStatuses }) };
    const name = draft.addConfig(group, { strategy, targets: [own, ...next].map((config) => ({ config })) });
    return { name, count: next.reduce((sum, one) => sum + (this.#leaves.get(one) ?? 1), count) };
  }

  /** The config with the deployments of a model, of a group or of a pattern that it fits; undefined for none. */
  #balancedOf(model: string): string | undefined {
    if (!this.#groups.has(model) && this.#resolve(model) === undefined) return undefined;
    if (!this.#groups.has(model)) this.#addResolved(model);
    return this.#balancedConfig(model, false);
  }

  /** Deployments of the pattern that a model fits, with the model in place of the `*`. */
  #resolve(model: string): Deployment[] | undefined {
    const pattern = this.#inOrder().find((one) => one.includes('*') && capturedBy(one, model) !== undefined);
    const found = pattern === undefined ? undefined : this.#groups.get(pattern);
    if (pattern === undefined || found === undefined) return undefined;
    const text = capturedBy(pattern, model) ?? model;
    return found.map((one) => ({ ...one, group: model, model: one.model.replace('*', text) || model }));
  }

  #addResolved(model: string): void {
    const found = this.#resolve(model);
    if (found !== undefined) this.#groups.set(model, found);
  }

  #balancedConfig(group: string, hasFallbacks: boolean): string {
    const known = this.#balanced.get(group);
    if (known !== undefined) return known;
    const { draft } = this.#parts;
    const deployments = this.#groups.get(group) ?? [];
    const wanted = hasFallbacks ? `${group}-deployments` : group;
    const { config, count } = this.#balance(deployments, wanted);
    const name = draft.addConfig(wanted, config);
    this.#balanced.set(group, name);
    this.#leaves.set(name, count);
    return name;
  }

  #balance(deployments: readonly Deployment[], wanted: string): { config: Written; count: number } {
    const orders = [...new Set(deployments.map(({ order }) => order))].toSorted((one, other) => one - other);
    if (orders.length > 1) {
      const parts = orders.map((order) =>
        this.#balance(
          deployments.filter((one) => one.order === order),
          wanted,
        ),
      );
      return {
        config: { strategy: { mode: 'fallback' }, targets: parts.map(({ config }) => config) },
        count: parts.reduce((sum, { count }) => sum + count, 0),
      };
    }
    const isTagged =
      this.#router['enable_tag_filtering'] === true && deployments.some(({ tags }) => tags.length > 0);
    if (isTagged) return this.#byTags(deployments, wanted);
    for (const { tags, at } of deployments)
      if (tags.length > 0)
        this.#told.missing(
          [...at, 'litellm_params', 'tags'],
          'enable_tag_filtering is off, and tags of deployments change nothing',
        );
    return this.#spread(deployments, wanted);
  }

  /** One deployment, or one of several that share the load. */
  #spread(deployments: readonly Deployment[], wanted: string): { config: Written; count: number } {
    const [first, ...others] = deployments;
    if (first === undefined) return { config: {}, count: 0 };
    if (others.length === 0) return { config: this.#target(first, this.#retries), count: 1 };
    const weights = deployments.map(({ weight }) => weight);
    const isEqual = weights.every((weight) => weight === weights[0]);
    const weighted = (index: number): Written => (isEqual ? {} : { weight: weights[index] });
    const tries = Math.min(deployments.length, 1 + this.#retries);
    if (this.#strategy !== 'loadbalance' || tries < 2) {
      const targets = deployments.map((one, index) => ({
        ...this.#target(one, this.#retries),
        ...weighted(index),
      }));
      return { config: { strategy: { mode: this.#strategy }, targets }, count: deployments.length };
    }
    // A retry of LiteLLM may reach another deployment: each one is followed by its neighbours.
    const names = deployments.map((one, index) =>
      this.#parts.draft.addConfig(`${wanted}-${index + 1}`, this.#target(one, 0)),
    );
    const targets = names.map((_, index) => ({
      strategy: { mode: 'fallback', on_status_codes: retriedStatuses },
      ...weighted(index),
      targets: Array.from({ length: tries }, (__, step) => ({
        config: names[(index + step) % names.length],
      })),
    }));
    return { config: { strategy: { mode: 'loadbalance' }, targets }, count: deployments.length * tries };
  }

  /** A deployment is chosen by the tags in the metadata of the body. */
  #byTags(deployments: readonly Deployment[], wanted: string): { config: Written; count: number } {
    const tags = [...new Set(deployments.flatMap((one) => one.tags))].filter((tag) => tag !== 'default');
    const others = deployments.filter((one) => one.tags.length === 0 || one.tags.includes('default'));
    const choices = tags.map((tag) => ({ tag, own: deployments.filter((one) => one.tags.includes(tag)) }));
    const spread = choices.map(({ own, tag }) => this.#spread(own, `${wanted}-${tag}`));
    const rest = this.#spread(others.length > 0 ? others : deployments, `${wanted}-default`);
    const conditions = choices.map(({ tag }) => ({
      query: { 'metadata.tags': { $regex: `(^|,)${escapeRegex(tag)}(,|$)` } },
      then: tag,
    }));
    for (const { at, tags: own } of deployments)
      if (own.length > 0)
        this.#told.changed(
          [...at, 'litellm_params', 'tags'],
          `the plugin litellm makes one text of the tags of a request, of which the first tag of the file decides; a request without a known tag is served by ${others.length > 0 ? 'the deployments without tags' : 'any deployment'}`,
        );
    return {
      config: {
        strategy: { mode: 'conditional', conditions, default: 'default' },
        targets: [
          ...spread.map(({ config }, index) => ({ ...config, name: tags[index] })),
          { ...rest.config, name: 'default' },
        ],
      },
      count: [...spread, rest].reduce((sum, { count }) => sum + count, 0),
    };
  }

  #target({ target, model, group, retries, at }: Deployment, usual: number): TargetDraft {
    const attempts = retries ?? usual;
    return {
      ...target,
      ...this.#modelOf(group, model, at),
      ...((retries !== undefined || usual !== this.#retries) && { retry: { attempts } }),
    };
  }

  /** How the model of the request becomes that of the host. */
  #modelOf(group: string, model: string, at: SourcePath): Written {
    if (model === '') return {};
    if (!group.includes('*')) return model.includes('*') ? {} : { override_params: { model } };
    if (!model.includes('*')) return { override_params: { model } };
    const [from = '', fromEnd = ''] = group.split('*');
    const [to = '', toEnd = ''] = model.split('*');
    if (fromEnd !== toEnd)
      this.#told.missing(
        [...at, 'litellm_params', 'model'],
        'what follows the "*" stays in the model: the beginning alone can be replaced',
      );
    return from === to ? {} : { model_prefix: { remove: from, ...(to !== '' && { add: to }) } };
  }

  /** Uploads name their model in a form, which conditions do not see. */
  #uploads(): { condition: Written; target: Written } | undefined {
    const found = [...this.#groups.values()].flat().find(({ mode }) => mode === 'audio_transcription');
    if (found === undefined) return undefined;
    const name = 'audio uploads';
    return {
      condition: {
        query: { 'url.pathname': { $regex: '/audio/(transcriptions|translations)$' } },
        then: name,
      },
      target: { ...found.target, name },
    };
  }

  /** Retries, timeouts and breakers of all groups. */
  #settings(root: Written): void {
    const { provider } = this.#parts.draft;
    root['retry'] = { attempts: Math.min(this.#retries, 5) };
    const timeout = this.#setting(['router_settings', 'timeout'], ['litellm_settings', 'request_timeout']);
    if (timeout !== undefined && typeof timeout.value === 'number') {
      root['request_timeout'] = Math.round(timeout.value * 1000);
      this.#told.mapped(timeout.at, `is request_timeout of configs.${rootConfig}, in milliseconds`);
    }
    const stream = this.#setting(
      ['router_settings', 'stream_timeout'],
      ['litellm_settings', 'stream_timeout'],
    );
    if (stream !== undefined && typeof stream.value === 'number') {
      root['first_token_timeout'] = Math.max(1, Math.round(stream.value * 1000));
      this.#told.changed(stream.at, 'bounds the time to the first token (first_token_timeout)');
    }
    this.#breaker(root);
    const drop = this.#litellm['drop_params'];
    if (drop === undefined) return;
    if (drop === false) provider['on_drop'] = 'refuse';
    this.#told.mapped(
      ['litellm_settings', 'drop_params'],
      drop === false
        ? 'is on_drop: refuse'
        : 'what a host cannot say is left out, and named in x-service-dropped',
    );
  }

  #breaker(root: Written): void {
    const fails = this.#setting(['router_settings', 'allowed_fails'], ['litellm_settings', 'allowed_fails']);
    const cooldown = this.#setting(
      ['router_settings', 'cooldown_time'],
      ['litellm_settings', 'cooldown_time'],
    );
    if (this.#router['disable_cooldowns'] === true) {
      this.#told.mapped(['router_settings', 'disable_cooldowns'], 'no circuit breaker is written');
      for (const one of [fails, cooldown])
        if (one !== undefined) this.#told.missing(one.at, 'disable_cooldowns is on');
      return;
    }
    if (fails === undefined && cooldown === undefined) return;
    const allowed = typeof fails?.value === 'number' ? fails.value : 3;
    const seconds = typeof cooldown?.value === 'number' ? cooldown.value : 5;
    const interval = Math.max(shortestCooldownMs, Math.round(seconds * 1000));
    root['cb_config'] = {
      failure_threshold: Math.max(1, Math.floor(allowed) + 1),
      cooldown_interval: interval,
      failure_status_codes: retriedStatuses,
    };
    if (fails !== undefined)
      this.#told.mapped(
        fails.at,
        `is failure_threshold ${Math.floor(allowed) + 1} within a minute (cb_config)`,
      );
    if (cooldown === undefined) return;
    if (interval === Math.round(seconds * 1000))
      this.#told.mapped(cooldown.at, 'is cooldown_interval (cb_config)');
    else
      this.#told.changed(
        cooldown.at,
        `is ${interval / 1000} seconds, the shortest cooldown_interval (cb_config)`,
      );
  }

  #readStrategy(): string {
    const at = ['router_settings', 'routing_strategy'];
    const written = this.#router['routing_strategy'];
    if (written === undefined) return 'loadbalance';
    switch (written) {
      case 'simple-shuffle':
        this.#told.mapped(at, 'is the strategy loadbalance, by weight');
        return 'loadbalance';
      case 'latency-based-routing':
        this.#told.mapped(at, 'is the strategy least-latency; a retry asks the same deployment again');
        return 'least-latency';
      case 'cost-based-routing':
        this.#told.mapped(at, 'is the strategy least-cost; a retry asks the same deployment again');
        return 'least-cost';
      default:
        this.#told.changed(
          at,
          `is the strategy loadbalance, by weight: ${importSources.textOf(written).slice(0, 64)} has no counterpart`,
        );
        return 'loadbalance';
    }
  }

  #readRetries(): number {
    const found = this.#setting(['router_settings', 'num_retries'], ['litellm_settings', 'num_retries']);
    if (found === undefined || typeof found.value !== 'number') return usualRetries;
    const retries = Math.max(0, Math.floor(found.value));
    const told = 'of one deployment again, of a group with several the next one';
    if (retries > 5) this.#told.changed(found.at, `is 5 retries, the most: ${told}`);
    else this.#told.mapped(found.at, `is ${retries} retries: ${told}`);
    return Math.min(retries, 5);
  }

  #readFallbacks(): Map<string, Fallback[]> {
    const found = new Map<string, Fallback[]>();
    const add = (group: string, fallback: Fallback): void =>
      void found.set(group, [...(found.get(group) ?? []), fallback]);
    const everywhere: Fallback[] = [];
    for (const section of ['router_settings', 'litellm_settings'])
      for (const [key, kind] of [
        ['fallbacks', 'any'],
        ['context_window_fallbacks', 'context'],
        ['content_policy_fallbacks', 'any'],
      ] as const) {
        const list = (section === 'router_settings' ? this.#router : this.#litellm)[key];
        for (const [index, entry] of (Array.isArray(list) ? list : []).entries())
          for (const [group, names] of Object.entries(importSources.objectOf(entry))) {
            const at = [section, key, index, group];
            const fallback = { to: this.#names(names, at), at, kind };
            if (group === '*') everywhere.push(fallback);
            else if (this.#groups.has(group) || this.#resolve(group) !== undefined) add(group, fallback);
            else {
              this.#told.missing(
                at,
                `${quoted(group)} is no model of this file, and its fallback is left out`,
              );
              continue;
            }
            this.#toldFallback(key, at);
          }
      }
    const usual = this.#setting(
      ['router_settings', 'default_fallbacks'],
      ['litellm_settings', 'default_fallbacks'],
    );
    if (usual !== undefined) {
      everywhere.push({ to: this.#names(usual.value, usual.at), at: usual.at, kind: 'any' });
      this.#told.mapped(usual.at, 'follow every model without fallbacks of its own');
    }
    if (everywhere.length > 0)
      for (const group of this.#groups.keys()) if (!found.has(group)) found.set(group, everywhere);
    return found;
  }

  #toldFallback(key: string, at: SourcePath): void {
    if (key === 'fallbacks') this.#told.mapped(at, 'is a fallback: after every answer that is no success');
    else if (key === 'context_window_fallbacks')
      this.#told.changed(
        at,
        `is a fallback after ${tooLongStatuses.join(' and ')}: the gateway does not tell a request that is too long from another mistake`,
      );
    else
      this.#told.changed(
        at,
        'is a fallback after every answer that is no success: refusals for content are not told apart',
      );
  }

  #names(value: JsonValue | undefined, at: SourcePath): readonly string[] {
    const list = Array.isArray(value) ? value : [value];
    return list.flatMap((one) => {
      if (typeof one === 'string') return [one];
      const model = importSources.objectOf(one)['model'];
      if (typeof model === 'string') {
        this.#told.changed(at, 'the model of a fallback is used, its other parameters are left out');
        return [model];
      }
      return [];
    });
  }

  #readAliases(): Map<string, string[]> {
    const aliases = new Map<string, string[]>();
    for (const [alias, value] of Object.entries(importSources.objectOf(this.#router['model_group_alias']))) {
      const at = ['router_settings', 'model_group_alias', alias];
      const group = typeof value === 'string' ? value : importSources.objectOf(value)['model'];
      if (typeof group !== 'string' || (!this.#groups.has(group) && this.#resolve(group) === undefined)) {
        this.#told.missing(at, 'names no model of this file, and is left out');
        continue;
      }
      if (!this.#groups.has(group)) this.#addResolved(group);
      aliases.set(group, [...(aliases.get(group) ?? []), alias]);
      this.#told.mapped(at, `is another name of ${quoted(group)}`);
    }
    return aliases;
  }

  /** The first of two settings that is there; the other one gets a line. */
  #setting(first: readonly [string, string], second: readonly [string, string]): Setting | undefined {
    const root = importSources.objectOf(this.#parts.source.value);
    const found = [first, second].flatMap(([section, key]) => {
      const value = importSources.objectOf(root[section])[key];
      return value === undefined || value === null ? [] : [{ value, at: [section, key] }];
    });
    for (const { at } of found.slice(1))
      this.#told.missing(at, `${first.join('.')} is there as well, and wins`);
    return found[0];
  }
}
