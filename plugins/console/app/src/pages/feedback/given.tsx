import { useEffect, useRef, useState } from 'react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { api, dataOf } from '@/api/client';
import type { operations } from '@/api/schema.gen';
import { useAddressTexts } from '@/lib/address';
import { listText, type Filters } from '@/lib/filters';
import { count } from '@/lib/format';
import { shortId, useKeyNames } from '@/lib/names';
import type { timesOf } from '@/lib/time-range';
import { feedback as texts } from '@/texts/feedback';
import { Button } from '@/ui/button';
import { DataTable, type Columns } from '@/ui/data-table';
import { Card } from '@/ui/page';
import { Pager } from '@/ui/pager';
import { Badge, Time } from '@/ui/small';
import { Loaded } from '@/ui/states';

type Given = operations['feedback.list']['responses'][200]['content']['application/json']['data'][number];

const pageSize = 20;

function signed(value: number): string {
  return value > 0 ? `+${value}` : String(value);
}

function columnsOf(keys: ReadonlyMap<string, string>): Columns<Given> {
  const { entry } = texts;
  return [
    { id: 'time', header: entry.time, cell: ({ row }) => <Time iso={row.original.created_at} /> },
    {
      ...{ id: 'value', header: entry.value, meta: { align: 'right', isState: true } },
      cell: ({ row: { original } }) => (
        <Badge tone={original.value > 0 ? 'good' : original.value < 0 ? 'bad' : 'neutral'}>
          {signed(original.value)}
        </Badge>
      ),
    },
    {
      ...{ id: 'weight', header: entry.weight, meta: { align: 'right' } },
      cell: ({ row }) => row.original.weight,
    },
    {
      ...{ id: 'comment', header: entry.comment },
      cell: ({ row: { original } }) => {
        const { comment, ...others } = original.metadata;
        const words = [
          ...(typeof comment === 'string' ? [comment] : []),
          ...(Object.keys(others).length > 0 ? [JSON.stringify(others)] : []),
        ].join(' · ');
        return <span title={words}>{words.slice(0, 300)}</span>;
      },
    },
    {
      ...{ id: 'by', header: entry.by },
      cell: ({ row: { original } }) => {
        const shown = original.user_id || keys.get(original.api_key_id) || original.api_key_id;
        return <span title={shown}>{shortId(shown)}</span>;
      },
    },
    {
      ...{ id: 'trace', header: entry.trace },
      cell: ({ row }) => <span className="font-mono text-xs">{shortId(row.original.trace_id)}</span>,
    },
  ];
}

interface GivenListProps {
  readonly asked: Filters & ReturnType<typeof timesOf>;
  /** With it, feedback of this value alone. */
  readonly score: number | undefined;
}

/** Single feedback of the time, the filters and the chosen value; each leads to the requests of its trace. */
export function GivenList({ asked, score }: GivenListProps) {
  const navigate = useNavigate();
  const [page, setPage] = useState(0);
  const query = useQuery({
    queryKey: ['feedback-given', asked, score, page],
    queryFn: ({ signal }) => {
      const place = { current_page: page, page_size: pageSize };
      const value = score === undefined ? {} : { value_min: score, value_max: score };
      return dataOf(api.GET('/feedback', { params: { query: { ...asked, ...value, ...place } }, signal }));
    },
    placeholderData: keepPreviousData,
  });
  const keys = useKeyNames(query.data?.data.map(({ api_key_id: id }) => id) ?? []);
  const [, change] = useAddressTexts();
  const title = score === undefined ? texts.newest : texts.ofScore(signed(score));
  // A bar above it was pressed.
  const top = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (score !== undefined) top.current?.parentElement?.scrollIntoView({ block: 'nearest' });
  }, [score]);
  return (
    <Card
      title={title}
      className="lg:col-span-2"
      actions={
        score !== undefined && (
          <Button onClick={() => change({ value: undefined })}>{texts.everyScore}</Button>
        )
      }
    >
      <div ref={top} />
      <Loaded query={query} lines={4}>
        {({ data, total }) => (
          <DataTable
            label={title}
            columns={columnsOf(keys)}
            rows={data}
            rowId={({ id }) => id}
            onOpen={({ trace_id: trace }) =>
              void navigate({ to: '/logs', search: { trace_id: listText([trace]), range: '30d' } })
            }
            footer={
              <Pager page={page} isLast={(page + 1) * pageSize >= total} onPage={setPage}>
                {texts.shown(count(page * pageSize + 1), count(page * pageSize + data.length), count(total))}
              </Pager>
            }
          />
        )}
      </Loaded>
    </Card>
  );
}
