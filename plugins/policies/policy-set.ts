import { listOfValues, metadataName, type PolicyKey } from '../../core/organisation/policies.ts';
import type { PolicyCondition, PolicyTarget } from '../../core/ports/record-kinds.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import type { Window } from '../../core/ports/counters.ts';
import { budgetOfPolicy, limitWords, windowMsOf } from '../../core/access/limit-charges.ts';
import type { Budget } from '../../core/ports/budgets.ts';
import { sha256, decodePercent } from '../../core/base/bytes.ts';
import type { RequestContext } from '../../core/pipeline/plugin.ts';
import type { ToolCall } from '../../core/pipeline/tool-calls.ts';
import type { Directory, KeyRecord } from '../../core/ports/directory.ts';

/** A request as policies see it, before routing, or one call of a tool within it. */
export class Subject {
  readonly context: RequestContext;
  readonly key: KeyRecord;
  readonly call: Pick<ToolCall, 'server' | 'tool'> | undefined;
  private readonly directory: Directory;

  constructor(context: RequestContext, key: KeyRecord, directory: Directory, call?: Subject['call']) {
    this.context = context;
    this.key = key;
    this.directory = directory;
    this.call = call;
  }

  /** Without the `@slug/` of a provider. */
  get model(): string {
    const { addressed } = this;
    return addressed === undefined ? this.named : this.named.slice(addressed.length + 2);
  }

  /** From the header, or from the model; the provider that a config chooses is not known yet. */
  get provider(): string {
    const named = this.context.service('provider') || this.context.service('virtual-key');
    return this.slugOf(withoutAt(named ?? '') || this.addressed);
  }

  get virtualKey(): string {
    const { context } = this;
    const header = context.service('virtual-key');
    if (header) return this.slugOf(withoutAt(header));
    const provider = context.service('provider') ?? '';
    if (provider !== '') return provider.startsWith('@') ? this.slugOf(provider.slice(1)) : '';
    return this.slugOf(this.addressed);
  }

  /** Slug of the named config; empty for one that the request carries inline. */
  get config(): string {
    const { key, directory } = this;
    const header = this.context.service('config')?.trim();
    if (header?.startsWith('{') === true) return '';
    const place = { organisationId: key.organisationId, workspaceId: key.workspaceId };
    const named =
      header ||
      key.defaults?.configId ||
      directory.defaultsOf(key.organisationId, key.workspaceId).configId ||
      '';
    return named === '' ? '' : (directory.record('config', place, named)?.slug ?? named);
  }

  /** Slug of the prompt, without the requested version. */
  get prompt(): string {
    const { context, key } = this;
    const named = context.facts.prompt || promptOfPath(context.path);
    const at = named.indexOf('@');
    const name = at === -1 ? named : named.slice(0, at);
    const place = { organisationId: key.organisationId, workspaceId: key.workspaceId };
    return name === '' ? '' : (this.directory.record('prompt', place, name)?.slug ?? name);
  }

  /** The model as the request names it. */
  private get named(): string {
    const { context } = this;
    const { endpoint, body } = context;
    if (endpoint.id === 'generate-content') return decodePercent(modelOfPath.exec(context.path)?.[1] ?? '');
    if (endpoint.id === 'realtime') return new URLSearchParams(context.query).get('model') ?? '';
    const json = body.loaded ? body.json : undefined;
    if (typeof json !== 'object' || json === null || Array.isArray(json)) return '';
    const { model } = json;
    return typeof model === 'string' ? model : '';
  }

  /** The provider in `@slug/model`. */
  private get addressed(): string | undefined {
    const { named } = this;
    const end = named.startsWith('@') ? named.indexOf('/') : -1;
    return end > 1 ? named.slice(1, end) : undefined;
  }

  private slugOf(name: string | undefined): string {
    if (name === undefined || name === '') return '';
    const place = { organisationId: this.key.organisationId, workspaceId: this.key.workspaceId };
    return this.directory.record('provider', place, name)?.slug ?? name;
  }
}

const modelOfPath = /(?:models|endpoints)\/(.+):\w+$/i;
const promptPath = /^\/prompts\/([^/]+)\/(?:completions|render)$/;

function promptOfPath(path: string): string {
  return path.startsWith('/prompts/') ? decodePercent(promptPath.exec(path)?.[1] ?? '') : '';
}

function withoutAt(name: string): string {
  return name.startsWith('@') ? name.slice(1) : name;
}

const reads: Readonly<Record<PolicyKey, Read>> = {
  api_key: ({ key }) => key.id,
  workspace_id: ({ key }) => key.workspaceId,
  organisation_id: ({ key }) => key.organisationId,
  virtual_key: (subject) => subject.virtualKey,
  provider: (subject) => subject.provider,
  config: (subject) => subject.config,
  prompt: (subject) => subject.prompt,
  model: (subject) => subject.model,
  endpoint_type: ({ context }) => context.endpoint.id,
  mcp_server: ({ call }) => call?.server ?? '',
  mcp_tool: ({ call }) => call?.tool ?? '',
};

/** Reader for a rule's key; undefined for an unknown key. */
function readerOf(key: string): Read | undefined {
  const name = metadataName(key);
  if (name !== undefined) return ({ context }) => ownValue(context.facts.metadata, name);
  return Object.hasOwn(reads, key) ? reads[key as PolicyKey] : undefined;
}

function ownValue(values: Readonly<Record<string, string>>, name: string): string {
  return Object.hasOwn(values, name) ? (values[name] ?? '') : '';
}

const ofBody: ReadonlySet<string> = new Set<PolicyKey>(['virtual_key', 'provider', 'model']);

/** True for keys whose value may be in the body. */
function isOfBody(key: string): boolean {
  return ofBody.has(key);
}

const ofGateway: ReadonlySet<string> = new Set<PolicyKey>([
  'api_key',
  'workspace_id',
  'organisation_id',
  'endpoint_type',
  // Only servers that exist have calls.
  'mcp_server',
]);

/** True for keys whose value callers choose freely. */
function isInvented(key: string): boolean {
  return !ofGateway.has(key);
}

/** Longer group names are replaced by a digest, so that values of callers take little memory. */
const longestName = 128;

/** Parameters of a policy's counters. */
interface GroupRule {
  /** Key prefix of the counters, unique for the policy. */
  readonly prefix: string;
  readonly organisationId: string;
  readonly limit: number;
  readonly windowMs: number;
  /** Callers choose the groups: beyond `maxGroups` new ones are refused, and no active one is evicted. */
  readonly isInvented: boolean;
  readonly maxGroups: number;
}

interface Group {
  readonly window: Window;
  usedAt: number;
}

/** The windows of one policy by group, bounded; the most recently used are at the end. */
class GroupTable {
  private readonly rule: GroupRule;
  private readonly groups = new Map<string, Group>();

  constructor(rule: GroupRule) {
    this.rule = rule;
  }

  get size(): number {
    return this.groups.size;
  }

  /** The window of a group; undefined when there is no room for another one. `now` is monotonic milliseconds. */
  window(group: string, now: number): Window | undefined {
    const name = group.length > longestName ? sha256(group, 'base64') : group;
    const known = this.groups.get(name);
    if (known !== undefined) {
      known.usedAt = now;
      // A map keeps insertion order: this moves the window to the end.
      this.groups.delete(name);
      this.groups.set(name, known);
      return known.window;
    }
    if (!this.hasRoom(now)) return undefined;
    const { prefix, organisationId, limit, windowMs } = this.rule;
    const window = { key: `${prefix}:${name}`, group: organisationId, limit, windowMs };
    this.groups.set(name, { window, usedAt: now });
    return window;
  }

  private hasRoom(now: number): boolean {
    const { maxGroups, windowMs, isInvented } = this.rule;
    if (this.groups.size < maxGroups) return true;
    const [oldest] = this.groups;
    if (oldest === undefined) return false;
    const [name, { usedAt }] = oldest;
    if (isInvented && now - usedAt < windowMs) return false;
    this.groups.delete(name);
    return true;
  }
}

type RatePolicyRecord = StoredRecord<'rate_limit_policy'>;
type UsagePolicyRecord = StoredRecord<'usage_limit_policy'>;
type PolicyRecord = RatePolicyRecord | UsagePolicyRecord;

type Matches = (said: string) => boolean;

interface Condition {
  readonly read: Read;
  readonly matches: Matches;
  readonly excludes: Matches | undefined;
}

/** Conditions and grouping of a stored policy. */
class PolicyRules {
  readonly target: PolicyTarget;
  readonly needsBody: boolean;
  protected readonly isInvented: boolean;
  protected readonly groupBy: readonly { readonly key: string; readonly read: Read }[];
  readonly #conditions: readonly Condition[];

  constructor({ data: { target = 'llm', type, conditions, groupBy } }: PolicyRecord) {
    this.target = target;
    this.#conditions = conditions.map((condition) => compile(condition));
    this.groupBy = groupBy.map(({ key }) => ({ key, read: readerOf(key) ?? nothing }));
    this.needsBody = type !== 'requests' || [...conditions, ...groupBy].some(({ key }) => isOfBody(key));
    this.isInvented = groupBy.some(({ key }) => isInvented(key));
  }

  /** True when the request meets all conditions of the policy. */
  applies(subject: Subject): boolean {
    for (const { read, matches, excludes } of this.#conditions) {
      const said = read(subject);
      if (said === '' || !matches(said) || excludes?.(said) === true) return false;
    }
    return true;
  }

  /** The group that the request belongs to: `metadata._user:ann`. Empty for a policy that counts everything together. */
  groupOf(subject: Subject): string {
    const valueKey = this.groupBy.map(({ key, read }) => `${key}:${read(subject)}`).join(',');
    return valueKey.length > longestName ? sha256(valueKey, 'base64') : valueKey;
  }
}

function prefixOf({ id }: RatePolicyRecord): string {
  return `policy:${id}`;
}

/** A stored rate-limit policy, ready to judge requests. */
export class RatePolicy extends PolicyRules {
  readonly record: RatePolicyRecord;
  readonly type: RatePolicyRecord['data']['type'];
  readonly windowMs: number;
  /** For refusals: `The rate-limit policy "name" (100 requests per minute)`. */
  readonly words: string;
  readonly #groups: GroupTable;

  constructor(record: RatePolicyRecord, maxGroups: number) {
    super(record);
    this.record = record;
    const { name, organisationId, data } = record;
    const { type, unit, value } = data;
    this.type = type;
    this.windowMs = windowMsOf(unit);
    this.words = `The rate-limit policy ${JSON.stringify(name)} (${limitWords(data)})`;
    this.#groups = new GroupTable({
      prefix: prefixOf(record),
      organisationId,
      limit: value,
      windowMs: this.windowMs,
      isInvented: this.isInvented,
      maxGroups,
    });
  }

  /** True when the window belongs to a group of this policy. */
  owns({ key }: Window): boolean {
    return key.startsWith(`${prefixOf(this.record)}:`);
  }

  /** The window that counts the request; undefined when there is no room for its group. */
  windowOf(subject: Subject, now: number): Window | undefined {
    const [first, ...others] = this.groupBy;
    if (first === undefined) return this.#groups.window('', now);
    if (others.length === 0) return this.#groups.window(first.read(subject), now);
    const values: string[] = [];
    for (const { read } of this.groupBy) values.push(read(subject));
    return this.#groups.window(JSON.stringify(values), now);
  }
}

/** A stored usage-limit policy: one budget for each of its groups. */
export class UsagePolicy extends PolicyRules {
  /** For refusals: `The usage-limit policy "name"`. */
  readonly words: string;
  readonly #record: UsagePolicyRecord;
  readonly #maxGroups: number;
  readonly #budgets = new Map<string, Budget>();

  constructor(record: UsagePolicyRecord, maxGroups: number) {
    super(record);
    this.words = `The usage-limit policy ${JSON.stringify(record.name)}`;
    this.#record = record;
    this.#maxGroups = maxGroups;
  }

  /** The budget of the request; undefined when there is no room for its group. */
  budgetOf(subject: Subject): Budget | undefined {
    const name = this.groupOf(subject);
    const known = this.#budgets.get(name);
    if (known !== undefined) return known;
    // A budget is never evicted while its policy is unchanged: eviction would reset it.
    if (this.#budgets.size >= this.#maxGroups) return undefined;
    const budget = budgetOfPolicy(this.#record, name);
    this.#budgets.set(name, budget);
    return budget;
  }
}

/** The policies of one workspace for one target. */
export interface PolicySet {
  readonly rates: readonly RatePolicy[];
  readonly usages: readonly UsagePolicy[];
  readonly needsBody: boolean;
}

interface KnownSets {
  readonly usageRecords: readonly UsagePolicyRecord[];
  /** Undefined for a target without policies. */
  readonly sets: Readonly<Record<PolicyTarget, PolicySet | undefined>>;
}

const noPolicies: readonly never[] = [];

/** Makes and caches sets of policies: an unchanged policy keeps its groups. */
export class PolicySets {
  readonly #maxGroups: number;
  readonly #rates = new WeakMap<readonly RatePolicyRecord[], readonly RatePolicy[]>();
  readonly #usages = new WeakMap<readonly UsagePolicyRecord[], readonly UsagePolicy[]>();
  readonly #policies = new WeakMap<PolicyRecord, RatePolicy | UsagePolicy>();
  /** By the list of rate policies, or of usage policies when there are no rate policies. */
  readonly #sets = new WeakMap<readonly PolicyRecord[], KnownSets>();

  constructor(maxGroups: number) {
    this.#maxGroups = maxGroups;
  }

  /** Those of these records, which never change, that have the target; undefined for none. */
  of(
    target: PolicyTarget,
    rates: readonly RatePolicyRecord[],
    usages: readonly UsagePolicyRecord[],
  ): PolicySet | undefined {
    if (rates.length + usages.length === 0) return undefined;
    const by = rates.length > 0 ? rates : usages;
    const known = this.#sets.get(by);
    if (known !== undefined && known.usageRecords === usages) return known.sets[target];
    const all = {
      rates: this.#listOf(this.#rates, rates, (record) => new RatePolicy(record, this.#maxGroups)),
      usages: this.#listOf(this.#usages, usages, (record) => new UsagePolicy(record, this.#maxGroups)),
    };
    const sets = { llm: setOf('llm', all), mcp_tools: setOf('mcp_tools', all) };
    this.#sets.set(by, { usageRecords: usages, sets });
    return sets[target];
  }

  #listOf<R extends PolicyRecord, P extends RatePolicy | UsagePolicy>(
    lists: WeakMap<readonly R[], readonly P[]>,
    records: readonly R[],
    make: (record: R) => P,
  ): readonly P[] {
    if (records.length === 0) return noPolicies;
    let made = lists.get(records);
    if (made === undefined) {
      made = records.map((record) => {
        const known = (this.#policies.get(record) as P | undefined) ?? make(record);
        this.#policies.set(record, known);
        return known;
      });
      lists.set(records, made);
    }
    return made;
  }
}

function setOf(wanted: PolicyTarget, all: Omit<PolicySet, 'needsBody'>): PolicySet | undefined {
  const rates = all.rates.filter(({ target }) => target === wanted);
  const usages = all.usages.filter(({ target }) => target === wanted);
  if (rates.length + usages.length === 0) return undefined;
  return { rates, usages, needsBody: [...rates, ...usages].some((policy) => policy.needsBody) };
}

function compile({ key, value, excludes }: PolicyCondition): Condition {
  return {
    read: readerOf(key) ?? nothing,
    matches: matcherOf(listOfValues(value)),
    excludes: excludes === undefined ? undefined : matcherOf(listOfValues(excludes)),
  };
}

/** Matches texts that equal a value, or start with a value that ends in `*`. */
function matcherOf(values: readonly string[]): Matches {
  const whole = new Set(values.filter((value) => !value.endsWith('*')));
  const beginnings = values.filter((value) => value.endsWith('*')).map((value) => value.slice(0, -1));
  if (beginnings.length === 0) return (said) => whole.has(said);
  return (said) => whole.has(said) || beginnings.some((beginning) => said.startsWith(beginning));
}

function nothing(): string {
  return '';
}

/** Reads the value of a rule's key from a request; empty when the request has none. */
type Read = (subject: Subject) => string;
