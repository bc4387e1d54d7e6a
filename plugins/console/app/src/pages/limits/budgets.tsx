import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { api, dataOf } from '@/api/client';
import { useSession } from '@/api/session';
import { useGroupNames } from '@/lib/names';
import { UsageBar, type UsageLimit } from '@/resource/limits';
import { limits as texts } from '@/texts/limits';
import { type Columns, DataTable } from '@/ui/data-table';
import { Card } from '@/ui/page';
import { Badge, Time } from '@/ui/small';
import { Empty, Loaded } from '@/ui/states';

interface Budget {
  readonly id: string;
  readonly kind: keyof typeof texts.budgets.kinds;
  readonly name: string;
  /** The part of a policy that has this budget, `api_key:ID`. */
  readonly group?: string;
  readonly used: number;
  readonly limit: UsageLimit;
  readonly resets: string | null | undefined;
  /** Place in the console. */
  readonly path: string;
  readonly open: string;
}

interface Listing<T> {
  readonly total: number;
  readonly data: readonly T[];
}

const most = 1000;
const pageSize = 100;
const mostPolicies = 20;

/** All pages of a list, up to the most that is looked at. */
async function all<T>(list: (page: number) => Promise<Listing<T>>): Promise<readonly T[]> {
  const found: T[] = [];
  for (let page = 0; page * pageSize < most; page += 1) {
    const { total, data } = await list(page);
    found.push(...data);
    if (data.length === 0 || found.length >= total) break;
  }
  return found;
}

const at = (page: number) => ({ params: { query: { current_page: page, page_size: pageSize } } });

async function budgetsOf(may: (...scopes: readonly string[]) => boolean): Promise<readonly Budget[]> {
  const parts: Promise<readonly Budget[]>[] = [];
  const of = <T extends { readonly id: string; readonly name: string }>(
    kind: Budget['kind'],
    path: string,
    list: Promise<readonly T[]>,
    limitsOf: (record: T) => readonly UsageLimit[],
  ): void => {
    const made = list.then((records) =>
      records.flatMap((record) =>
        limitsOf(record).map((limit, index): Budget => {
          const resets = 'next_usage_reset_at' in record ? record.next_usage_reset_at : null;
          return {
            ...{ id: `${record.id}-${index}`, kind, name: record.name, limit, path, open: record.id },
            used: limit.current_usage ?? 0,
            resets: typeof resets === 'string' ? resets : limit.next_usage_reset_at,
          };
        }),
      ),
    );
    parts.push(made);
  };
  if (may('workspace_service_api_keys.list', 'workspace_user_api_keys.list'))
    of(
      ...(['key', '/keys'] as const),
      all((page) => dataOf(api.GET('/api-keys', at(page)))),
      ({ usage_limits: limit }) => (limit === null ? [] : [limit]),
    );
  if (may('workspaces.list'))
    of(
      ...(['workspace', '/workspaces'] as const),
      all((page) => dataOf(api.GET('/workspaces', at(page)))),
      ({ usage_limits: limits }) => limits,
    );
  if (may('providers.list'))
    of(
      ...(['provider', '/providers'] as const),
      all((page) => dataOf(api.GET('/providers', at(page)))),
      ({ usage_limits: limit }) => (limit === null ? [] : [limit]),
    );
  if (may('policies.list') && may('policies.read')) parts.push(policyBudgets());
  const found = (await Promise.all(parts)).flat();
  return found.sort((left, right) => shareOf(right) - shareOf(left));
}

async function policyBudgets(): Promise<readonly Budget[]> {
  const query = { status: 'active', page_size: mostPolicies } as const;
  const { data } = await dataOf(api.GET('/policies/usage-limits', { params: { query } }));
  const parts = data.map(async ({ id }) => {
    const policy = await dataOf(
      api.GET('/policies/usage-limits/{policyUsageLimitsId}', {
        params: { path: { policyUsageLimitsId: id }, query: { include_usage: true } },
      }),
    );
    return Object.entries(policy.value_key_usage_map ?? {}).map(
      ([group, { current_usage: used }]): Budget => {
        const limit = { ...policy, current_usage: used };
        return {
          ...{ id: `${id}-${group}`, kind: 'policy', name: policy.name, group, used, limit },
          ...{ resets: policy.next_reset_at, path: '/limits', open: id },
        };
      },
    );
  });
  return (await Promise.all(parts)).flat();
}

function shareOf({ used, limit }: Budget): number {
  return limit.credit_limit === 0 ? 1 : used / limit.credit_limit;
}

const words = texts.budgets;

const columnsOf = (groupName: (group: string) => string): Columns<Budget> => [
  {
    header: words.column.what,
    cell: ({ row: { original } }) => (
      <Link
        to={original.path}
        search={original.kind === 'policy' ? { show: 'usage', open: original.open } : { open: original.open }}
        className="hover:text-accent font-medium hover:underline"
      >
        {original.name}
        {original.group !== undefined && `: ${groupName(original.group)}`}{' '}
        <span className="text-soft text-xs font-normal">{words.kinds[original.kind]}</span>
      </Link>
    ),
  },
  {
    header: words.column.used,
    cell: ({ row: { original } }) => (
      <UsageBar
        small
        used={original.used}
        limit={original.limit.credit_limit}
        type={original.limit.type}
        alert={original.limit.alert_threshold}
      />
    ),
  },
  {
    header: words.column.state,
    meta: { isState: true },
    cell: ({ row: { original } }) => {
      const share = shareOf(original);
      if (share >= 1) return <Badge tone="bad">{words.over}</Badge>;
      return share >= 0.8 ? <Badge tone="warn">{words.near}</Badge> : <Badge tone="good">{words.fine}</Badge>;
    },
  },
  {
    header: words.column.resets,
    cell: ({ row: { original } }) =>
      original.resets ? <Time iso={original.resets} ago /> : <span className="text-soft">{words.never}</span>,
  },
];

/** Everything that has a usage limit, the nearest to its end first. */
export function Budgets() {
  const { may } = useSession();
  const query = useQuery({ queryKey: ['budgets'], queryFn: () => budgetsOf(may), refetchInterval: 15_000 });
  const columns = columnsOf(useGroupNames(query.data?.flatMap(({ group }) => group ?? []) ?? []));
  return (
    <>
      <p className="text-soft max-w-prose">{words.intro}</p>
      <Card>
        <Loaded query={query} lines={6}>
          {(budgets) =>
            budgets.length === 0 ? (
              <Empty title={words.empty} text={words.emptyText} />
            ) : (
              <DataTable
                label={texts.tabs.budgets}
                columns={columns}
                rows={budgets}
                rowId={({ id }) => id}
                footer={<p className="text-soft px-3 py-2 text-xs">{words.cut}</p>}
              />
            )
          }
        </Loaded>
      </Card>
    </>
  );
}
