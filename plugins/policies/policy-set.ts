import type { StoredRecord } from '../../core/ports/records.ts';
import type { Window } from '../../core/ports/counters.ts';
import { limitWords, windowMsOf } from '../../core/access/limit-charges.ts';
import { isInvented, isOfBody, type Read, readerOf, type Subject } from './subject.ts';
import { sha256 } from '../../core/base/sha256.ts';

/** Longer groups are counted under a digest, so that what callers send takes little room. */
const longestName = 128;

/** What a policy counts in. */
interface GroupRule {
  /** Of the counters: unique for the policy. */
  readonly prefix: string;
  readonly organisationId: string;
  readonly limit: number;
  readonly windowMs: number;
  /** Callers choose the groups: beyond `maxGroups` new ones are refused, and none that counts is forgotten. */
  readonly isInvented: boolean;
  readonly maxGroups: number;
}

interface Group {
  readonly window: Window;
  usedAt: number;
}

/** The windows of one policy by group, bounded; those that were used last are at the end. */
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
      // A map keeps the order of insertion.
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
    // A window counts for one of its sixty parts longer than it is.
    if (isInvented && now - usedAt <= windowMs + windowMs / 60) return false;
    this.groups.delete(name);
    return true;
  }
}

type PolicyRecord = StoredRecord<'rate_limit_policy'>;

interface Condition {
  readonly read: Read;
  readonly value: string;
  /** `value` is a beginning. */
  readonly isPrefix: boolean;
}

/** A stored policy, ready to judge requests. */
export class Policy {
  readonly type: PolicyRecord['data']['type'];
  readonly windowMs: number;
  /** For refusals: `The rate-limit policy "name" (100 requests per minute)`. */
  readonly words: string;
  readonly needsBody: boolean;
  private readonly conditions: readonly Condition[];
  private readonly groupBy: readonly Read[];
  private readonly groups: GroupTable;

  constructor({ id, name, organisationId, data }: PolicyRecord, maxGroups: number) {
    const { type, unit, value, conditions, groupBy } = data;
    this.type = type;
    this.windowMs = windowMsOf(unit);
    this.words = `The rate-limit policy ${JSON.stringify(name)} (${limitWords(data)})`;
    this.conditions = conditions.map((condition) => compile(condition));
    this.groupBy = groupBy.map(({ key }) => readerOf(key) ?? nothing);
    this.needsBody = type === 'tokens' || [...conditions, ...groupBy].some(({ key }) => isOfBody(key));
    this.groups = new GroupTable({
      ...{ prefix: `policy:${id}`, organisationId, limit: value, windowMs: this.windowMs },
      ...{ isInvented: groupBy.some(({ key }) => isInvented(key)), maxGroups },
    });
  }

  /** Whether the policy is about this request: all of its conditions hold. */
  applies(subject: Subject): boolean {
    for (const { read, value, isPrefix } of this.conditions) {
      const said = read(subject);
      if (said === '' || !(isPrefix ? said.startsWith(value) : said === value)) return false;
    }
    return true;
  }

  /** What the request is counted in; undefined when there is no room for its group. */
  windowOf(subject: Subject, now: number): Window | undefined {
    const [first, ...others] = this.groupBy;
    if (first === undefined) return this.groups.window('', now);
    if (others.length === 0) return this.groups.window(first(subject), now);
    const values: string[] = [];
    for (const read of this.groupBy) values.push(read(subject));
    return this.groups.window(JSON.stringify(values), now);
  }
}

/** The policies that hold in one place. */
export interface PolicySet {
  readonly policies: readonly Policy[];
  readonly needsBody: boolean;
}

/** Makes sets of policies, each once: what has not changed keeps its groups. */
export class PolicySets {
  private readonly maxGroups: number;
  private readonly sets = new WeakMap<readonly PolicyRecord[], PolicySet>();
  private readonly policies = new WeakMap<PolicyRecord, Policy>();

  constructor(maxGroups: number) {
    this.maxGroups = maxGroups;
  }

  /** The set of these records, which never change. */
  of(records: readonly PolicyRecord[]): PolicySet {
    const known = this.sets.get(records);
    if (known !== undefined) return known;
    const policies = records.map((record) => this.policy(record));
    const set = { policies, needsBody: policies.some(({ needsBody }) => needsBody) };
    this.sets.set(records, set);
    return set;
  }

  private policy(record: PolicyRecord): Policy {
    let policy = this.policies.get(record);
    if (policy === undefined) this.policies.set(record, (policy = new Policy(record, this.maxGroups)));
    return policy;
  }
}

function compile({ key, value }: { readonly key: string; readonly value: string }): Condition {
  const isPrefix = value.endsWith('*');
  return { read: readerOf(key) ?? nothing, value: isPrefix ? value.slice(0, -1) : value, isPrefix };
}

function nothing(): string {
  return '';
}
