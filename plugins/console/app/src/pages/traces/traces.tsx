import { useMemo } from 'react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { api, dataOf } from '@/api/client';
import type { operations } from '@/api/schema.gen';
import { useAddress } from '@/lib/address';
import { classes } from '@/lib/classes';
import { filtersOf } from '@/lib/filters';
import { count, duration, money } from '@/lib/format';
import { usePreferences } from '@/lib/preferences';
import { rangeOf, spanOf, timesOf } from '@/lib/time-range';
import { traces as texts } from '@/texts/traces';
import { DataTable, type Columns } from '@/ui/data-table';
import { FilterBar } from '@/ui/filter-bar';
import { Card, Page } from '@/ui/page';
import { Pager } from '@/ui/pager';
import { RangePicker } from '@/ui/range-picker';
import { Badge, Time } from '@/ui/small';
import { Empty, Loaded } from '@/ui/states';

type Trace = operations['traces.list']['responses'][200]['content']['application/json']['data'][number];

const pageSize = 50;

const columns: Columns<Trace> = [
  { id: 'begun', header: texts.columns.begun, cell: ({ row }) => <Time iso={row.original.started_at} /> },
  {
    id: 'id',
    header: texts.columns.id,
    cell: ({ row }) => <span className="font-mono text-xs">{row.original.trace_id}</span>,
  },
  {
    ...{ id: 'requests', header: texts.columns.requests, meta: { align: 'right' } },
    cell: ({ row }) => count(row.original.requests),
  },
  {
    ...{ id: 'errors', header: texts.columns.errors, meta: { align: 'right' } },
    cell: ({ row: { original } }) =>
      original.errors === 0 ? (
        <span className="text-soft">0</span>
      ) : (
        <Badge tone="bad">{count(original.errors)}</Badge>
      ),
  },
  {
    ...{ id: 'time', header: texts.columns.time, meta: { align: 'right' } },
    cell: ({ row }) => duration(row.original.duration_ms),
  },
  {
    ...{ id: 'tokens', header: texts.columns.tokens, meta: { align: 'right' } },
    cell: ({ row }) => count(row.original.total_tokens),
  },
  {
    ...{ id: 'cost', header: texts.columns.cost, meta: { align: 'right' } },
    cell: ({ row }) => money(row.original.cost),
  },
];

export default function Traces() {
  const { search, change } = useAddress();
  const navigate = useNavigate();
  const { zone } = usePreferences();
  const range = rangeOf(search);
  const filters = useMemo(() => filtersOf(search), [search]);
  const page = Math.max(0, Math.trunc(Number(search['page'] ?? 1)) - 1) || 0;
  const query = useQuery({
    queryKey: ['traces', range, zone, filters, page],
    queryFn: ({ signal }) => {
      const place = { ...timesOf(spanOf(range, zone)), current_page: page, page_size: pageSize };
      return dataOf(api.GET('/traces', { params: { query: { ...filters, ...place } }, signal }));
    },
    placeholderData: keepPreviousData,
  });
  return (
    <Page title={texts.title} intro={texts.intro} actions={<RangePicker range={range} />}>
      <FilterBar range={range} />
      <Card className={classes(query.isPlaceholderData && 'opacity-60')}>
        <Loaded query={query} lines={10}>
          {({ data, total }) =>
            data.length === 0 ? (
              <Empty title={texts.empty} text={texts.emptyHelp} />
            ) : (
              <DataTable
                label={texts.list}
                columns={columns}
                rows={data}
                rowId={({ trace_id: id }) => id}
                onOpen={({ trace_id: id }) => void navigate({ to: '/traces/$id', params: { id } })}
                footer={
                  <Pager
                    page={page}
                    isLast={(page + 1) * pageSize >= total}
                    onPage={(next) => change({ page: next + 1 })}
                  >
                    {texts.page(
                      count(page * pageSize + 1),
                      count(page * pageSize + data.length),
                      count(total),
                    )}
                  </Pager>
                }
              />
            )
          }
        </Loaded>
      </Card>
    </Page>
  );
}
