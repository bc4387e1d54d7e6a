import { listOfValues, metadataName } from '../../organisation/policies.ts';
import type { Analytics, CountedBy, CountedUsageQuery, CountedValues } from '../../ports/analytics.ts';
import type { UsageCorrection, UsageLedger, UsageRow, Budget, BudgetSubject } from '../../ports/budgets.ts';
import type { StoredRecord } from '../../ports/records.ts';
import type { PolicyCondition } from '../../ports/record-kinds.ts';
import type { Resources, ResourcesReader } from '../../ports/resources.ts';

/** Dependencies and settings of a comparison. */
interface BudgetComparisonParts {
  readonly ledger: Pick<UsageLedger, 'correct'>;
  /** Rows of the ledger, read after `endedBy`, or at it where no other process counts in it. */
  readonly rows: readonly UsageRow[];
  /** Only requests that had ended by then are compared. Milliseconds since the epoch. */
  readonly endedBy: number;
  readonly analytics: Pick<Analytics, 'countedUsage'>;
  /** Where policies and providers stand; undefined: their budgets are left out. */
  readonly resources: Pick<Resources, 'read'> | undefined;
  /** Why budgets of keys, workspaces and policies are left out; undefined: they are not. */
  readonly leavesOutKeys: string | undefined;
  /** False: nothing is changed. */
  readonly corrects: boolean;
}

/** A budget that counts less than its rows of requests record. Amounts are in whole units. */
export interface BudgetDifference {
  readonly key: string;
  readonly organisationId: string;
  readonly unit: NonNullable<BudgetKey['unit']>;
  readonly counted: number;
  readonly recorded: number;
  /** Whether this comparison corrected the ledger; another process may have done so before, or the period may be over. */
  readonly isCorrected: boolean;
}

/** How a comparison ended. */
export interface BudgetComparison {
  readonly compared: number;
  readonly differences: readonly BudgetDifference[];
  /** How many budgets were left out, by reason. */
  readonly leftOut: ReadonlyMap<string, number>;
}

/** Groups of one query, and keys of one read of records. */
const groupsPerQuery = 500;

const pageSize = 100;

/**
 * Compares the counts of budgets in their present periods with the rows of requests, and adds the missing amounts: the
 * larger of both holds. A row is compared from the first request on that its budget has counted in the period. Rejects
 * when a store fails; earlier corrections stay.
 */
export async function compareBudgets(parts: BudgetComparisonParts): Promise<BudgetComparison> {
  const leftOut = new Map<string, number>();
  const differences: BudgetDifference[] = [];
  let compared = 0;
  for (const question of await questionsOf(parts, leftOut)) {
    for (let at = 0; at < question.budgets.length; at += groupsPerQuery) {
      const some = question.budgets.slice(at, at + groupsPerQuery);
      compared += some.length;
      differences.push(...(await compare(parts, question, some)));
    }
  }
  return { compared, differences, leftOut };
}

/** One budget within a question. */
interface Asked {
  readonly row: UsageRow;
  readonly group: string;
  readonly unit: BudgetDifference['unit'];
  readonly from: number;
  /** A provider's budget: an answer from the cache does not count in it. */
  readonly isOfProvider: boolean;
}

/** Budgets that one kind of query answers for. */
interface Question {
  readonly query: Omit<CountedUsageQuery, 'groups' | 'endedBy'>;
  readonly budgets: Asked[];
}

async function compare(
  parts: BudgetComparisonParts,
  question: Question,
  asked: readonly Asked[],
): Promise<BudgetDifference[]> {
  const { analytics, ledger, endedBy, corrects } = parts;
  const { query } = question;
  const groups = new Map<string, number>();
  // Limits of one record with different periods are queried separately.
  const rest: Asked[] = [];
  const present = asked.filter((one) => {
    if (groups.has(one.group)) return void rest.push(one);
    groups.set(one.group, one.from);
    return true;
  });
  const used = new Map(
    (await analytics.countedUsage({ ...query, groups, endedBy })).map((one) => [one.group, one]),
  );
  const found: (BudgetDifference & UsageCorrection)[] = [];
  for (const { row, group, unit, isOfProvider } of present) {
    const usage = used.get(group);
    if (usage === undefined) continue;
    const recorded = isOfProvider && unit === 'requests' ? usage.attempted : usage[unit];
    const added = recorded - row.used;
    // Sums of fractions are rounded request by request on both sides.
    if (added <= (unit === 'cost' ? usage.requests : 0)) continue;
    const { key, organisationId, epoch, corrections } = row;
    found.push({
      ...{ key, organisationId, unit, counted: row.used, recorded },
      ...{ epoch, corrections, added, isCorrected: false },
    });
  }
  const corrected = corrects && found.length > 0 ? await ledger.correct(found) : new Set<string>();
  const differences = found.map(({ key, organisationId, unit, counted, recorded }) => {
    return { key, organisationId, unit, counted, recorded, isCorrected: corrected.has(key) };
  });
  if (rest.length > 0) differences.push(...(await compare(parts, question, rest)));
  return differences;
}

async function questionsOf(
  { rows, resources, leavesOutKeys }: BudgetComparisonParts,
  leftOut: Map<string, number>,
): Promise<readonly Question[]> {
  const questions = new Map<string, Question>();
  const leave = (reason: string): void => void leftOut.set(reason, (leftOut.get(reason) ?? 0) + 1);
  const lookUp = recordsOf(resources);
  for (const row of rows) {
    const of = readBudgetKey(row.key);
    if (of === undefined || row.used < 0) continue;
    if (row.since === undefined) {
      leave('counted by an earlier version');
      continue;
    }
    const isOfProvider = of.type === 'provider' || of.type === 'integration';
    if (leavesOutKeys !== undefined && !isOfProvider) {
      leave(leavesOutKeys);
      continue;
    }
    const meant = await meaningOf(of, lookUp);
    if (typeof meant === 'string') {
      leave(meant);
      continue;
    }
    const { name, query, group, unit, changedAt = 0 } = meant;
    let question = questions.get(name);
    if (question === undefined) questions.set(name, (question = { query, budgets: [] }));
    const from = Math.max(row.epoch, row.since, changedAt);
    question.budgets.push({ row, group, unit, from, isOfProvider });
  }
  return [...questions.values()];
}

/** Query of rows for one budget. */
interface Meaning {
  /** The same for budgets that one query answers for. */
  readonly name: string;
  readonly query: Question['query'];
  readonly group: string;
  readonly unit: BudgetDifference['unit'];
  /** Other requests may have been counted before. */
  readonly changedAt?: number;
}

/** The query of rows for a budget, or why there is none. */
async function meaningOf(of: BudgetKey, lookUp: ReturnType<typeof recordsOf>): Promise<Meaning | string> {
  const { type, organisationId, id, workspaceId, unit = 'requests' } = of;
  const plain = { organisationId, workspaceId: undefined, conditions: noTools };
  switch (type) {
    case 'api_key':
    case 'workspace': {
      const by = type === 'api_key' ? ('api_key' as const) : ('workspace_id' as const);
      const groupBy = [{ text: '', by }];
      return { name: `${type} ${organisationId}`, query: { ...plain, groupBy }, group: id, unit };
    }
    case 'provider': {
      const provider = await lookUp.provider(organisationId, id);
      if (provider === undefined) return 'of a provider that is gone';
      // A provider of the organisation serves under its name in every workspace.
      const query = {
        ...{ organisationId, workspaceId: provider.workspaceId, conditions: noTools },
        groupBy: [{ text: '', by: 'provider' as const }],
      };
      const name = `provider ${organisationId} ${provider.workspaceId ?? ''}`;
      return { name, query, group: provider.slug, unit };
    }
    case 'integration': {
      const slugs = await lookUp.providersOf(organisationId, workspaceId, id);
      if (slugs.length === 0) return 'of an integration without providers';
      const query = {
        ...{ organisationId, workspaceId },
        conditions: [...noTools, { ...anyValue, by: 'provider' as const, whole: slugs, beginnings: [] }],
        groupBy: [{ text: '', by: 'workspace_id' as const }],
      };
      return { name: `integration ${organisationId} ${id} ${workspaceId}`, query, group: workspaceId, unit };
    }
    case 'usage_limit_policy': {
      const policy = await lookUp.policy(organisationId, id);
      return policy === undefined ? 'of a policy that is gone' : policyMeaning(policy, of.valueKey);
    }
  }
}

const anyValue: Omit<CountedValues, 'by'> = {
  whole: [],
  beginnings: [''],
  notWhole: [],
  notBeginnings: [],
};

/**
 * Rows of requests to MCP servers do not tell how many calls of tools they held. A count is never raised by them, so a
 * crash may forget the calls of its last second.
 */
const noTools: readonly CountedValues[] = [{ ...anyValue, by: 'endpoint_type', notWhole: ['mcp'] }];

function policyMeaning(policy: StoredRecord<'usage_limit_policy'>, valueKey: string): Meaning | string {
  const { organisationId, workspaceId, id, data } = policy;
  if (data.target === 'mcp_tools') return 'of a policy for calls of tools, which rows do not count';
  const conditions = [...noTools];
  for (const condition of data.conditions) {
    const by = countedBy(condition.key);
    if (by === undefined) return unkept;
    conditions.push(valuesOf(condition, by));
  }
  const groupBy: { text: string; by: CountedBy }[] = [];
  for (const { key } of data.groupBy) {
    const by = countedBy(key);
    if (by === undefined) return unkept;
    groupBy.push({ text: `${key}:`, by });
  }
  const query = { organisationId, workspaceId, conditions, groupBy };
  return { name: `policy ${id}`, query, group: valueKey, unit: data.type, changedAt: policy.updatedAt };
}

const unkept =
  'of a policy by what rows do not keep as the request said it (model, provider, virtual_key, config, prompt)';

const counted: ReadonlySet<string> = new Set([
  'api_key',
  'workspace_id',
  'organisation_id',
  'endpoint_type',
] satisfies CountedBy[]);

function countedBy(key: string): CountedBy | undefined {
  const metadata = metadataName(key);
  if (metadata !== undefined) return { metadata };
  return counted.has(key) ? (key as CountedBy) : undefined;
}

function valuesOf({ value, excludes }: PolicyCondition, by: CountedBy): CountedValues {
  const whole = (values: readonly string[]) => values.filter((one) => !one.endsWith('*'));
  const beginnings = (values: readonly string[]) =>
    values.filter((one) => one.endsWith('*')).map((one) => one.slice(0, -1));
  const values = listOfValues(value);
  const not = excludes === undefined ? [] : listOfValues(excludes);
  return {
    by,
    whole: whole(values),
    beginnings: beginnings(values),
    notWhole: whole(not),
    notBeginnings: beginnings(not),
  };
}

/** Records by id, each looked up once. */
function recordsOf(resources: Pick<Resources, 'read'> | undefined) {
  const known = new Map<string, Promise<unknown>>();
  const once = <T>(name: string, read: (reader: ResourcesReader) => Promise<T>, without: T): Promise<T> => {
    if (resources === undefined) return Promise.resolve(without);
    let found = known.get(name) as Promise<T> | undefined;
    if (found === undefined) known.set(name, (found = resources.read(read)));
    return found;
  };
  return {
    provider: (organisationId: string, id: string) =>
      once(`provider ${id}`, ({ records }) => records.find('provider', { organisationId }, id), undefined),
    policy: (organisationId: string, id: string) =>
      once(
        `policy ${id}`,
        ({ records }) => records.find('usage_limit_policy', { organisationId }, id),
        undefined,
      ),
    providersOf: (organisationId: string, workspaceId: string, parentId: string) =>
      once<readonly string[]>(
        `providers ${workspaceId} ${parentId}`,
        async ({ records }) => {
          const slugs: string[] = [];
          for (let more = true; more;) {
            const page = { offset: slugs.length, limit: pageSize };
            const { total, data } = await records.list(
              'provider',
              organisationId,
              { workspaceId, parentId },
              page,
            );
            slugs.push(...data.map(({ slug }) => slug));
            more = data.length > 0 && slugs.length < total;
          }
          return slugs;
        },
        [],
      ),
  };
}

/** Parsed budget key. */
interface BudgetKey {
  readonly type: BudgetSubject['type'];
  readonly organisationId: string;
  readonly id: string;
  /** For an integration. */
  readonly workspaceId: string;
  /** For a policy; its record has the unit. */
  readonly valueKey: string;
  readonly unit: Budget['unit'] | undefined;
}

const keyTypes = {
  key: 'api_key',
  workspace: 'workspace',
  provider: 'provider',
  integration: 'integration',
  policy: 'usage_limit_policy',
} as const;

const policyKey = /^policy:([^:]+):([^:]+):(.*)$/s;

const recordKey = /^(key|workspace|provider|integration):([^:]+):(.+?):(cost|tokens|requests)(?::\w+)?$/s;

/** Parses the key of a budget; undefined when invalid. */
function readBudgetKey(key: string): BudgetKey | undefined {
  const [, ofPolicy, policy = '', valueKey = ''] = policyKey.exec(key) ?? [];
  if (ofPolicy !== undefined) {
    const type = 'usage_limit_policy';
    return { type, organisationId: ofPolicy, id: policy, workspaceId: '', valueKey, unit: undefined };
  }
  const [, kind, organisationId = '', named = '', unit] = recordKey.exec(key) ?? [];
  if (kind === undefined) return undefined;
  const type = keyTypes[kind as keyof typeof keyTypes];
  const [id = '', workspaceId = ''] = type === 'integration' ? named.split(':') : [named];
  return { type, organisationId, id, workspaceId, valueKey: '', unit: unit as Budget['unit'] };
}
