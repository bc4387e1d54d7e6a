import { useQuery } from '@tanstack/react-query';
import { Link, useParams } from '@tanstack/react-router';
import { ArrowLeft } from 'lucide-react';
import { api, dataOf } from '@/api/client';
import { listText } from '@/lib/filters';
import { count, duration, money } from '@/lib/format';
import { TraceTree } from '@/pages/traces/trace-tree';
import { traces as texts } from '@/texts/traces';
import { Card, Page } from '@/ui/page';
import { Code, Time } from '@/ui/small';
import { Loaded } from '@/ui/states';

export default function Trace() {
  const { id = '' }: { id?: string } = useParams({ strict: false });
  const query = useQuery({
    queryKey: ['trace', id],
    queryFn: ({ signal }) => dataOf(api.GET('/traces/{id}', { params: { path: { id } }, signal })),
  });
  return (
    <Page
      title={texts.one}
      actions={
        <Link
          to="/logs"
          search={{ trace_id: listText([id]), range: '30d' }}
          className="border-line bg-panel hover:bg-raised inline-flex h-8 items-center rounded-md border px-3 font-medium"
        >
          {texts.logs}
        </Link>
      }
    >
      <Link to="/traces" className="text-accent -mt-2 inline-flex w-fit items-center gap-1 hover:underline">
        <ArrowLeft className="size-4" aria-hidden />
        {texts.back}
      </Link>
      <Loaded query={query} wanted={{ noun: texts.noun, id, list: { to: '/traces' }, why: texts.missing }}>
        {(trace) => (
          <Card>
            <dl className="border-line flex flex-wrap gap-x-8 gap-y-2 border-b p-4">
              {(
                [
                  [texts.columns.id, <Code key="" text={trace.trace_id} />],
                  [texts.columns.begun, <Time key="" iso={trace.started_at} />],
                  [texts.columns.time, duration(trace.duration_ms)],
                  [texts.columns.requests, count(trace.requests)],
                  [texts.columns.errors, count(trace.errors)],
                  [texts.columns.tokens, count(trace.total_tokens)],
                  [texts.columns.cost, money(trace.cost)],
                ] as const
              ).map(([name, value]) => (
                <div key={name}>
                  <dt className="text-soft text-xs">{name}</dt>
                  <dd className="font-medium">{value}</dd>
                </div>
              ))}
            </dl>
            <TraceTree trace={trace} />
          </Card>
        )}
      </Loaded>
    </Page>
  );
}
