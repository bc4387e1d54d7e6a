import { useState } from 'react';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { RotateCcw } from 'lucide-react';
import { api, dataOf } from '@/api/client';
import type { operations } from '@/api/schema.gen';
import { useSession } from '@/api/session';
import { useGroupNames } from '@/lib/names';
import { UsageBar } from '@/resource/limits';
import { limits } from '@/texts/limits';
import { Button } from '@/ui/button';
import { type Columns, DataTable } from '@/ui/data-table';
import { Confirm } from '@/ui/dialog';
import { Badge, Time } from '@/ui/small';
import { Empty, Loaded, type LoadedQuery } from '@/ui/states';
import { useToast } from '@/ui/toast';

type Policy =
  operations['usage_limit_policies.list']['responses'][200]['content']['application/json']['data'][number];
type Entity =
  operations['usage_limit_policies.entities']['responses'][200]['content']['application/json']['data'][number];

type RatePolicy =
  operations['rate_limit_policies.list']['responses'][200]['content']['application/json']['data'][number];

const texts = limits.entities;
const words = limits.groups;
const everyMs = 15_000;

interface GroupRow {
  readonly group: string;
  readonly usage: NonNullable<Policy['value_key_usage_map']>[string];
}

/** What each group of a usage policy has used, what is left, and when its count begins anew. */
export function GroupUsage({ policy }: { readonly policy: Policy }) {
  const { may } = useSession();
  const say = useToast();
  const queries = useQueryClient();
  const [asks, setAsks] = useState<string>();
  const path = { policyUsageLimitsId: policy.id };
  const query = useQuery({
    queryKey: ['usage-policies', 'groups', policy.id],
    queryFn: () =>
      dataOf(
        api.GET('/policies/usage-limits/{policyUsageLimitsId}', {
          params: { path, query: { include_usage: true } },
        }),
      ),
    refetchInterval: everyMs,
  });
  const keys = Object.keys(query.data?.value_key_usage_map ?? {});
  const nameOf = useGroupNames(keys);
  const columns: Columns<GroupRow> = [
    {
      header: words.group,
      cell: ({ row: { original } }) => <span title={original.group}>{nameOf(original.group)}</span>,
    },
    {
      header: words.used,
      cell: ({ row: { original } }) => (
        <UsageBar
          small
          used={original.usage.current_usage}
          limit={policy.credit_limit}
          type={policy.type}
          alert={policy.alert_threshold}
        />
      ),
    },
    {
      header: texts.state,
      meta: { isState: true },
      cell: ({ row: { original } }) => (
        <span className="flex gap-1">
          <Badge tone={original.usage.status === 'active' ? 'good' : 'bad'}>
            {texts[original.usage.status]}
          </Badge>
          {original.usage.is_threshold_alerts_sent && <Badge tone="warn">{words.told}</Badge>}
        </span>
      ),
    },
    { header: words.resets, cell: () => <Resets policy={query.data ?? policy} /> },
    {
      id: 'reset',
      header: '',
      meta: { isActions: true },
      cell: ({ row: { original } }) =>
        may('policies.update') && (
          <Button aria-label={texts.resetOf(nameOf(original.group))} onClick={() => setAsks(original.group)}>
            <RotateCcw className="size-4" />
            {texts.reset}
          </Button>
        ),
    },
  ];
  return (
    <>
      <p className="text-soft">{words.intro}</p>
      <Loaded query={query}>
        {({ value_key_usage_map: usages = {} }) =>
          keys.length === 0 ? (
            <Empty text={words.none} />
          ) : (
            <DataTable
              label={words.tab}
              columns={columns}
              rows={Object.entries(usages).map(([group, usage]) => ({ group, usage }))}
              rowId={({ group }) => group}
            />
          )
        }
      </Loaded>
      <Confirm
        open={asks !== undefined}
        onOpenChange={() => setAsks(undefined)}
        title={texts.resetTitle(nameOf(asks ?? ''))}
        text={texts.resetText}
        action={texts.reset}
        onConfirm={async () => {
          await api.PUT('/policies/usage-limits/{policyUsageLimitsId}', {
            params: { path },
            body: { reset_usage_for_value: asks ?? '' },
          });
          // It makes a new version of the policy.
          await queries.invalidateQueries({ queryKey: ['usage-policies'] });
          say({ text: texts.resetDone, tone: 'good' });
        }}
      />
    </>
  );
}

/** When the counts of a policy begin anew. */
function Resets({ policy }: { readonly policy: Pick<Policy, 'next_reset_at'> }) {
  const { next_reset_at: next } = policy;
  return next ? <Time iso={next} ago /> : <span className="text-soft">{limits.budgets.never}</span>;
}

const mostEntities = 100;
const identity: Columns<Entity> = [
  { header: texts.name, cell: ({ row }) => row.original.name },
  { header: texts.type, cell: ({ row }) => texts.types[row.original.type] },
];

interface EntityTableProps {
  readonly query: LoadedQuery<{ readonly data: readonly Entity[] }>;
  readonly columns: Columns<Entity>;
}

function EntityTable({ query, columns }: EntityTableProps) {
  return (
    <Loaded query={query}>
      {({ data }) =>
        data.length === 0 ? (
          <Empty text={texts.none} />
        ) : (
          <DataTable
            label={texts.tab}
            columns={columns}
            rows={data}
            rowId={({ id }) => id}
            footer={
              data.length === mostEntities ? <p className="text-soft p-2 text-xs">{texts.most}</p> : null
            }
          />
        )
      }
    </Loaded>
  );
}

/** The keys, workspaces and users that a rate policy concerns. */
export function RateEntities({ policy }: { readonly policy: RatePolicy }) {
  const query = useQuery({
    queryKey: ['rate-policies', 'entities', policy.id],
    queryFn: () =>
      dataOf(
        api.GET('/policies/rate-limits/{rateLimitsPolicyId}/entities', {
          params: { path: { rateLimitsPolicyId: policy.id }, query: { page_size: mostEntities } },
        }),
      ),
  });
  return <EntityTable query={query} columns={identity} />;
}

/** The keys, workspaces and users that a usage policy concerns, and what each has used. */
export function Entities({ policy }: { readonly policy: Policy }) {
  const { may } = useSession();
  const say = useToast();
  const [asks, setAsks] = useState<Entity>();
  const path = { policyUsageLimitsId: policy.id };
  const query = useQuery({
    queryKey: ['usage-policies', 'entities', policy.id],
    queryFn: () =>
      dataOf(
        api.GET('/policies/usage-limits/{policyUsageLimitsId}/entities', {
          params: { path, query: { page_size: mostEntities } },
        }),
      ),
  });
  const columns: Columns<Entity> = [
    ...identity,
    {
      header: texts.used,
      cell: ({ row: { original } }) =>
        original.current_usage === null ? (
          <span className="text-soft">–</span>
        ) : (
          <UsageBar small used={original.current_usage} limit={policy.credit_limit} type={policy.type} />
        ),
    },
    {
      header: texts.state,
      meta: { isState: true },
      cell: ({ row: { original } }) => (
        <Badge tone={original.status === 'active' ? 'good' : 'bad'}>{texts[original.status]}</Badge>
      ),
    },
    {
      header: texts.resets,
      cell: ({ row: { original } }) => original.current_usage !== null && <Resets policy={policy} />,
    },
    {
      id: 'reset',
      header: '',
      meta: { isActions: true },
      cell: ({ row: { original } }) =>
        original.current_usage !== null &&
        may('policies.update') && (
          <Button aria-label={texts.resetOf(original.name)} onClick={() => setAsks(original)}>
            <RotateCcw className="size-4" />
            {texts.reset}
          </Button>
        ),
    },
  ];
  return (
    <>
      <EntityTable query={query} columns={columns} />
      <Confirm
        open={asks !== undefined}
        onOpenChange={() => setAsks(undefined)}
        title={texts.resetTitle(asks?.name ?? '')}
        text={texts.resetText}
        action={texts.reset}
        onConfirm={async () => {
          await api.PUT('/policies/usage-limits/{policyUsageLimitsId}/entities/{entityId}/reset', {
            params: { path: { ...path, entityId: asks?.id ?? '' } },
          });
          await query.refetch();
          say({ text: texts.resetDone, tone: 'good' });
        }}
      />
    </>
  );
}
