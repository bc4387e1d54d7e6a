import type { ReactNode } from 'react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Link, useParams } from '@tanstack/react-router';
import { Tabs } from 'radix-ui';
import { ArrowLeft, SquareTerminal, Terminal } from 'lucide-react';
import { api, dataOf } from '@/api/client';
import { useSession } from '@/api/session';
import { useAddress, textOf } from '@/lib/address';
import { classes } from '@/lib/classes';
import { duration, percent } from '@/lib/format';
import { Attempts } from '@/pages/logs/attempts';
import { Facts } from '@/pages/logs/facts';
import { Messages } from '@/pages/logs/messages';
import { Raw } from '@/pages/logs/raw';
import { curlOf, phasesOf, reasonOf, type LogDetail, type Phase } from '@/pages/logs/timings';
import { TraceTree } from '@/pages/traces/trace-tree';
import { log as texts } from '@/texts/log';
import { Button } from '@/ui/button';
import { DataTable, type Columns } from '@/ui/data-table';
import { Card, Page } from '@/ui/page';
import { Badge, type Tone } from '@/ui/small';
import { Empty, Loaded } from '@/ui/states';
import { useToast } from '@/ui/toast';

export default function Log() {
  const { id = '' }: { id?: string } = useParams({ strict: false });
  const query = useQuery({
    queryKey: ['log', id],
    queryFn: ({ signal }) => dataOf(api.GET('/logs/{id}', { params: { path: { id } }, signal })),
    // An entry does not change once its bodies are there.
    staleTime: 60_000,
    placeholderData: keepPreviousData,
  });
  return (
    <Page title={texts.title} actions={query.data && <Actions entry={query.data} />}>
      <Link to="/logs" className="text-accent -mt-2 inline-flex w-fit items-center gap-1 hover:underline">
        <ArrowLeft className="size-4" aria-hidden />
        {texts.back}
      </Link>
      <Loaded
        query={query}
        lines={8}
        wanted={{ noun: texts.noun, id, list: { to: '/logs' }, why: texts.missing }}
      >
        {(entry) => (
          <>
            <WhereTimeWent entry={entry} />
            <div className="grid items-start gap-4 xl:grid-cols-[minmax(0,1fr)_24rem]">
              <Parts entry={entry} />
              <Facts entry={entry} />
            </div>
          </>
        )}
      </Loaded>
    </Page>
  );
}

function Actions({ entry }: { readonly entry: LogDetail }) {
  const { may } = useSession();
  const say = useToast();
  const copy = async (): Promise<void> => {
    await navigator.clipboard.writeText(curlOf(entry, location.origin));
    say({ text: texts.curlDone, tone: 'good' });
  };
  const hasBody = entry.request.body !== null;
  return (
    <>
      <Button onClick={() => void copy()}>
        <Terminal className="size-4" aria-hidden />
        {texts.curl}
      </Button>
      {hasBody && may('completions.write') && (
        <Link
          to="/playground"
          search={{ log: entry.id }}
          className="bg-accent text-accent-ink inline-flex h-8 items-center gap-1.5 rounded-md px-3 font-medium"
        >
          <SquareTerminal className="size-4" aria-hidden />
          {texts.playground}
        </Link>
      )}
    </>
  );
}

const looks: Readonly<Record<Phase['kind'], string>> = {
  gateway: 'bg-soft',
  failed: 'bg-bad',
  waiting: 'bg-warn',
  streaming: 'bg-accent',
};
const dayMs = 86_400_000;

/** Says at a glance why the request took as long as it did. */
function WhereTimeWent({ entry }: { readonly entry: LogDetail }) {
  const { metrics } = entry;
  const phases = phasesOf(entry);
  const all = Math.max(metrics.latency_ms, 0.001);
  return (
    <Card title={texts.why}>
      <div className="grid gap-3 p-4">
        <p className="text-base font-medium">{reasonOf(entry)}</p>
        <div className="bg-raised flex h-4 overflow-hidden rounded" aria-hidden>
          {phases.map(({ kind, ms }) => (
            <div
              key={kind}
              className={classes('h-4 min-w-0.5', looks[kind])}
              style={{ width: `${(100 * ms) / all}%` }}
            />
          ))}
        </div>
        <ul className="flex flex-wrap gap-x-6 gap-y-1">
          {phases.map(({ kind, ms }) => (
            <li key={kind} className="flex items-center gap-2">
              <span className={classes('size-3 rounded-sm', looks[kind])} aria-hidden />
              {texts.phases[kind]}
              <span className="font-medium tabular-nums">{duration(ms)}</span>
              <span className="text-soft tabular-nums">{percent(ms / all)}</span>
            </li>
          ))}
          {metrics.first_token_ms > 0 && (
            <li className="text-soft">{texts.firstToken(duration(metrics.first_token_ms))}</li>
          )}
        </ul>
        <Usual entry={entry} />
      </div>
    </Card>
  );
}

/** How long requests to this model usually take. */
function Usual({ entry }: { readonly entry: LogDetail }) {
  const { may } = useSession();
  const { model } = entry.metrics;
  const to = Date.parse(entry.created_at);
  const { data } = useQuery({
    queryKey: ['usual-latency', model, entry.created_at],
    queryFn: ({ signal }) =>
      dataOf(
        api.GET('/analytics/graphs/latency', {
          params: {
            query: {
              ai_model: JSON.stringify([model]),
              time_of_generation_min: new Date(to - dayMs).toISOString(),
              time_of_generation_max: entry.created_at,
              granularity: 'month',
            },
          },
          signal,
        }),
      ),
    enabled: model !== '' && may('analytics.view'),
    staleTime: Infinity,
    retry: false,
  });
  const { p50, p95 } = data?.summary ?? {};
  if (typeof p50 !== 'number' || typeof p95 !== 'number') return null;
  return <p className="text-soft">{texts.usual(duration(p50), duration(p95))}</p>;
}

const tabNames = ['messages', 'attempts', 'guardrails', 'trace', 'raw'] as const;

function Parts({ entry }: { readonly entry: LogDetail }) {
  const { search, change } = useAddress();
  const tab = tabNames.find((name) => name === textOf(search['tab'])) ?? 'messages';
  const content: Readonly<Record<(typeof tabNames)[number], () => ReactNode>> = {
    messages: () => <Messages entry={entry} />,
    attempts: () => <Attempts entry={entry} />,
    guardrails: () => <Verdicts entry={entry} />,
    trace: () => <TraceOf entry={entry} />,
    raw: () => <Raw entry={entry} />,
  };
  const counts: Readonly<Partial<Record<string, number>>> = {
    attempts: entry.tries?.length,
    guardrails: verdictsOf(entry).length,
  };
  return (
    <Card>
      <Tabs.Root value={tab} onValueChange={(value) => change({ tab: value }, { replace: true })}>
        <Tabs.List aria-label={texts.tabs.label} className="border-line flex overflow-x-auto border-b px-2">
          {tabNames.map((name) => (
            <Tabs.Trigger
              key={name}
              value={name}
              className="text-soft data-[state=active]:text-ink data-[state=active]:border-accent -mb-px border-b-2 border-transparent px-3 py-2.5 font-medium"
            >
              {texts.tabs[name]}
              {(counts[name] ?? 0) > 0 && <span className="text-soft ml-1.5 text-xs">{counts[name]}</span>}
            </Tabs.Trigger>
          ))}
        </Tabs.List>
        {tabNames.map((name) => (
          <Tabs.Content key={name} value={name}>
            {name === tab && content[name]()}
          </Tabs.Content>
        ))}
      </Tabs.Root>
    </Card>
  );
}

interface Verdict {
  readonly name: string;
  readonly hook: string;
  readonly verdict: string;
  readonly ms: number;
}

function verdictsOf({ guardrails }: LogDetail): readonly Verdict[] {
  return Array.isArray(guardrails) ? (guardrails as Verdict[]) : [];
}

const verdictTones: Readonly<Record<string, Tone>> = {
  passed: 'good',
  changed: 'accent',
  flagged: 'warn',
  refused: 'bad',
  failed: 'bad',
};

const verdictColumns: Columns<Verdict> = [
  { id: 'name', header: texts.guardrails.columns.name, cell: ({ row }) => row.original.name },
  {
    ...{ id: 'hook', header: texts.guardrails.columns.hook },
    cell: ({ row }) => texts.guardrails.hooks[row.original.hook] ?? row.original.hook,
  },
  {
    ...{ id: 'verdict', header: texts.guardrails.columns.verdict, meta: { isState: true } },
    cell: ({ row: { original } }) => (
      <Badge tone={verdictTones[original.verdict] ?? 'neutral'}>{original.verdict}</Badge>
    ),
  },
  {
    ...{ id: 'ms', header: texts.guardrails.columns.ms, meta: { align: 'right' } },
    cell: ({ row }) => duration(row.original.ms),
  },
];

function Verdicts({ entry }: { readonly entry: LogDetail }) {
  const verdicts = verdictsOf(entry);
  if (verdicts.length === 0) return <Empty title={texts.guardrails.none} />;
  return (
    <DataTable
      label={texts.guardrails.label}
      columns={verdictColumns}
      rows={verdicts}
      rowId={(row) => String(verdicts.indexOf(row))}
    />
  );
}

function TraceOf({ entry }: { readonly entry: LogDetail }) {
  const { trace_id: id } = entry.metrics;
  const query = useQuery({
    queryKey: ['trace', id],
    queryFn: ({ signal }) => dataOf(api.GET('/traces/{id}', { params: { path: { id } }, signal })),
    enabled: id !== '',
  });
  if (id === '') return <Empty title={texts.trace.alone} />;
  return (
    <Loaded query={query}>
      {(trace) => (
        <>
          <TraceTree trace={trace} current={entry.id} />
          <p className="p-3">
            {trace.requests === 1 ? (
              <span className="text-soft">{texts.trace.alone}</span>
            ) : (
              <Link to="/traces/$id" params={{ id }} className="text-accent underline">
                {texts.trace.open}
              </Link>
            )}
          </p>
        </>
      )}
    </Loaded>
  );
}
