import { useState } from 'react';
import { useQuery } from '@tanstack/react-query';
import { RotateCcw } from 'lucide-react';
import { api, dataOf } from '@/api/client';
import type { operations } from '@/api/schema.gen';
import { useSession } from '@/api/session';
import { UsageBar } from '@/resource/limits';
import { limits } from '@/texts/limits';
import { Button } from '@/ui/button';
import { type Columns, DataTable } from '@/ui/data-table';
import { Confirm } from '@/ui/dialog';
import { Badge } from '@/ui/small';
import { Empty, Loaded } from '@/ui/states';
import { useToast } from '@/ui/toast';

type Policy =
  operations['usage_limit_policies.list']['responses'][200]['content']['application/json']['data'][number];
type Entity =
  operations['usage_limit_policies.entities']['responses'][200]['content']['application/json']['data'][number];

const texts = limits.entities;

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
          params: { path, query: { page_size: 100 } },
        }),
      ),
  });
  const columns: Columns<Entity> = [
    { header: texts.name, cell: ({ row }) => row.original.name },
    { header: texts.type, cell: ({ row }) => texts.types[row.original.type] },
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
      cell: ({ row: { original } }) => (
        <Badge tone={original.status === 'active' ? 'good' : 'bad'}>{texts[original.status]}</Badge>
      ),
    },
    {
      id: 'reset',
      header: '',
      cell: ({ row: { original } }) =>
        original.current_usage !== null &&
        may('policies.update') && (
          <Button aria-label={`${texts.reset} ${original.name}`} onClick={() => setAsks(original)}>
            <RotateCcw className="size-4" />
            {texts.reset}
          </Button>
        ),
    },
  ];
  return (
    <>
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
              footer={data.length === 100 ? <p className="text-soft p-2 text-xs">{texts.most}</p> : null}
            />
          )
        }
      </Loaded>
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
