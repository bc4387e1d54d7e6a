import type { StoredRecord } from '../../core/ports/records.ts';
import type { Window } from '../../core/ports/counters.ts';
import { limitWords, windowMsOf } from '../../core/access/limit-charges.ts';
import { GroupTable } from './group-table.ts';
import { isInvented, isOfBody, readerOf, type Read, type Subject } from './subject.ts';

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
