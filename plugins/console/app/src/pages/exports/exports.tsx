import { useState } from 'react';
import { keepPreviousData, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Download, Play, Plus, RotateCcw, X } from 'lucide-react';
import { api, ApiError, dataOf } from '@/api/client';
import type { operations } from '@/api/schema.gen';
import { useAddress } from '@/lib/address';
import { bytes, count } from '@/lib/format';
import { MakeExport } from '@/pages/exports/make-export';
import { WhoChanged } from '@/resource/who-changed';
import { common } from '@/texts/common';
import { exports as texts } from '@/texts/exports';
import { Button } from '@/ui/button';
import { DataTable, type Columns } from '@/ui/data-table';
import { Confirm } from '@/ui/dialog';
import { Card, Page } from '@/ui/page';
import { Pager } from '@/ui/pager';
import { Badge, Time, type Tone } from '@/ui/small';
import { Empty, Loaded } from '@/ui/states';
import { useToast } from '@/ui/toast';

type Export = operations['log_exports.list']['responses'][200]['content']['application/json']['data'][number];

const pageSize = 50;
const runningMs = 1000;
const key = ['exports'];

/** The API lists the oldest first; the newest are those that are looked for. */
async function readPage(page: number, signal: AbortSignal) {
  const ask = (current: number, size: number) =>
    dataOf(
      api.GET('/logs/exports', { params: { query: { current_page: current, page_size: size } }, signal }),
    );
  const { total } = await ask(0, 1);
  const last = Math.max(0, Math.ceil(total / pageSize) - 1);
  const { data } = await ask(Math.max(0, last - page), pageSize);
  return { total, pages: last + 1, data: data.toReversed() };
}

export default function Exports() {
  const { search, change } = useAddress();
  const page = Math.max(0, Math.trunc(Number(search['page'] ?? 1)) - 1) || 0;
  const query = useQuery({
    queryKey: [...key, page],
    queryFn: ({ signal }) => readPage(page, signal),
    placeholderData: keepPreviousData,
    refetchInterval: ({ state }) =>
      state.data?.data.some(({ status }) => status === 'in_progress') === true ? runningMs : false,
  });
  const make = (
    <Button kind="primary" onClick={() => change({ new: true })}>
      <Plus className="size-4" aria-hidden />
      {texts.make}
    </Button>
  );
  return (
    <Page title={texts.title} intro={texts.intro} actions={make}>
      <Card>
        <Loaded query={query} lines={6}>
          {({ data, pages }) =>
            data.length === 0 ? (
              <Empty title={texts.empty} text={texts.emptyHelp} />
            ) : (
              <DataTable
                label={texts.list}
                columns={columns}
                rows={data}
                rowId={({ id }) => id}
                footer={
                  pages > 1 && (
                    <Pager
                      page={page}
                      isLast={page + 1 >= pages}
                      onPage={(next) => change({ page: next + 1 })}
                    >{`${page + 1} / ${pages}`}</Pager>
                  )
                }
              />
            )
          }
        </Loaded>
      </Card>
      {search['new'] === true && (
        <MakeExport
          onClose={() => change({ new: undefined }, { replace: true })}
          onMade={() => change({ new: undefined, page: undefined }, { replace: true })}
        />
      )}
    </Page>
  );
}

const tones: Readonly<Record<Export['status'], Tone>> = {
  draft: 'neutral',
  in_progress: 'accent',
  success: 'good',
  failed: 'bad',
  stopped: 'warn',
};

const columns: Columns<Export> = [
  { id: 'made', header: texts.columns.made, cell: ({ row }) => <Time iso={row.original.created_at} /> },
  { id: 'what', header: texts.columns.what, cell: ({ row }) => <What one={row.original} /> },
  {
    ...{ id: 'state', header: texts.columns.state, meta: { isState: true } },
    cell: ({ row: { original } }) => (
      <span className="inline-flex items-center gap-2" title={original.error}>
        <Badge tone={tones[original.status]}>{texts.states[original.status]}</Badge>
        {original.error !== '' && <span className="text-bad max-w-80 truncate">{original.error}</span>}
      </span>
    ),
  },
  {
    ...{ id: 'rows', header: texts.columns.rows, meta: { align: 'right' } },
    cell: ({ row }) => <Rows one={row.original} />,
  },
  {
    ...{ id: 'size', header: texts.columns.size, meta: { align: 'right' } },
    cell: ({ row: { original } }) => (original.bytes_written > 0 ? bytes(original.bytes_written) : '–'),
  },
  { id: 'until', header: texts.columns.until, cell: ({ row }) => <Time iso={row.original.expires_at} /> },
  {
    ...{ id: 'actions', header: texts.columns.actions, meta: { align: 'right', isActions: true } },
    cell: ({ row: { original } }) => (
      <span className="inline-flex gap-1">
        <Actions one={original} />
        <WhoChanged small kind="log_exports" id={original.id} />
      </span>
    ),
  },
];

function What({ one: { filters, format, description } }: { readonly one: Export }) {
  const from = filters['time_of_generation_min'];
  const to = filters['time_of_generation_max'];
  const isTime = (value: unknown): value is string => typeof value === 'string' && /^\d/.test(value);
  return (
    <span className="inline-flex flex-wrap items-center gap-x-2">
      <Badge>{format}</Badge>
      {description !== '' && <span className="font-medium">{description}</span>}
      {(isTime(from) || isTime(to)) && (
        <span className="inline-flex gap-1">
          {isTime(from) && <Time iso={from} />}–{isTime(to) && <Time iso={to} />}
        </span>
      )}
    </span>
  );
}

function Rows({ one: { status, rows_written: done, total_records: all } }: { readonly one: Export }) {
  if (status !== 'in_progress') return <>{count(status === 'success' ? done : all)}</>;
  const part = all > 0 ? Math.min(100, (100 * done) / all) : 0;
  return (
    <span className="inline-flex items-center gap-2">
      <span
        role="progressbar"
        aria-label={texts.progress(count(done), count(all))}
        aria-valuenow={Math.round(part)}
        className="bg-raised block h-2 w-24 overflow-hidden rounded"
      >
        <span className="bg-accent block h-2" style={{ width: `${part}%` }} />
      </span>
      {texts.progress(count(done), count(all))}
    </span>
  );
}

function Actions({ one }: { readonly one: Export }) {
  const { id, status, expires_at: until } = one;
  const say = useToast();
  const queries = useQueryClient();
  const [asking, setAsking] = useState(false);
  const refresh = () => queries.invalidateQueries({ queryKey: key });
  const path = { exportId: id };
  const fail = (error: unknown): void =>
    say({ text: error instanceof ApiError ? error.message : String(error), tone: 'bad' });
  const start = useMutation({
    mutationFn: () => dataOf(api.POST('/logs/exports/{exportId}/start', { params: { path } })),
    onSuccess: () => {
      say({ text: texts.started, tone: 'good' });
      return refresh();
    },
    onError: fail,
  });
  const cancel = async (): Promise<void> => {
    await api.POST('/logs/exports/{exportId}/cancel', { params: { path } });
    say({ text: texts.cancelled, tone: 'good' });
    await refresh();
  };
  const download = useMutation({
    mutationFn: () => dataOf(api.GET('/logs/exports/{exportId}/download', { params: { path } })),
    onSuccess: ({ signed_url: url }) => {
      if (/^https?:/.test(url)) location.assign(url);
    },
    onError: fail,
  });
  if (status === 'in_progress')
    return (
      <>
        <Button className="h-7 px-2" onClick={() => setAsking(true)}>
          <X className="size-4" aria-hidden />
          {texts.cancel}
        </Button>
        <Confirm
          open={asking}
          onOpenChange={setAsking}
          title={texts.cancelTitle}
          text={texts.cancelText}
          action={texts.cancel}
          onConfirm={cancel}
        />
      </>
    );
  if (status === 'success' && until !== null)
    return (
      <Button className="h-7 px-2" busy={download.isPending} onClick={() => download.mutate()}>
        <Download className="size-4" aria-hidden />
        {common.action.download}
      </Button>
    );
  const isDraft = status === 'draft';
  return (
    <Button
      className="h-7 px-2"
      busy={start.isPending}
      title={status === 'success' ? texts.gone : undefined}
      onClick={() => start.mutate()}
    >
      {isDraft ? <Play className="size-4" aria-hidden /> : <RotateCcw className="size-4" aria-hidden />}
      {isDraft ? texts.start : texts.again}
    </Button>
  );
}
