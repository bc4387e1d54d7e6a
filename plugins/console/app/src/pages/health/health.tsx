import type { ReactNode } from 'react';
import { Link } from '@tanstack/react-router';
import { type Sample, type Status, useMetrics, useStatus } from '@/api/operations';
import { bytes, count, duration } from '@/lib/format';
import { operations } from '@/texts/operations';
import { type Columns, DataTable } from '@/ui/data-table';
import { Card, Page } from '@/ui/page';
import { Badge, Code, Time, type Tone } from '@/ui/small';
import { Empty, Loaded } from '@/ui/states';

const texts = operations.health;
const wanted =
  /^(weir_rows_(accepted_total|stored_total|pending|shed_total)|weir_plugin_(duration_seconds|hook_seconds)_(sum|count)|weir_plugin_errors_total)$/;

/** The gateway itself: what it does, and whether its parts are well. */
export default function Health() {
  const status = useStatus();
  const metrics = useMetrics(wanted);
  return (
    <Page title={texts.title} intro={texts.intro}>
      <Loaded query={status} lines={8}>
        {(found) => (
          <>
            <Notices status={found} />
            <Card title={texts.state}>
              <Facts rows={factsOf(found)} />
            </Card>
            <div className="grid gap-4 lg:grid-cols-2">
              <Card title={texts.stores}>
                <Stores dependencies={found.dependencies} />
                {found.directory !== null && (
                  <>
                    <h3 className="border-line border-t px-4 pt-3 font-medium">{texts.directory}</h3>
                    <Facts rows={rowsOf(found.directory)} />
                  </>
                )}
              </Card>
              <Card title={texts.journal}>
                <Loaded query={metrics}>{(samples) => <Journal samples={samples} />}</Loaded>
              </Card>
              <Card title={texts.plugins} className="lg:col-span-2">
                <p className="text-soft px-4 pt-2 text-xs">{texts.pluginsIntro}</p>
                <Loaded query={metrics}>
                  {(samples) => <Plugins samples={samples} breakers={found.plugin_breakers} />}
                </Loaded>
                {found.loop_blocks.length > 0 && (
                  <>
                    <h3 className="border-line border-t px-4 pt-3 font-medium">{texts.blocks}</h3>
                    {found.loop_blocks.map((block, index) => (
                      <Facts key={index} rows={rowsOf(block)} />
                    ))}
                  </>
                )}
              </Card>
              <Card title={texts.jobs} className="lg:col-span-2">
                <p className="text-soft px-4 pt-2 text-xs">{texts.jobsIntro}</p>
                <Jobs jobs={found.jobs} />
              </Card>
              {Array.isArray(found.workers) && found.workers.length > 0 && (
                <Card title={texts.workers}>
                  {found.workers.map((worker: unknown, index) => (
                    <Facts key={index} rows={rowsOf(worker)} />
                  ))}
                </Card>
              )}
            </div>
          </>
        )}
      </Loaded>
    </Page>
  );
}

function Notices({ status }: { readonly status: Status }) {
  const { config_error: error, restart_needed: restart, reasons = [] } = status;
  return (
    <>
      {reasons.length > 0 && (
        <p role="alert" className="bg-bad-wash text-bad rounded p-2">
          {texts.reasons}: {reasons.join(' ')}
        </p>
      )}
      {error !== null && (
        <p role="alert" className="bg-bad-wash text-bad rounded p-2">
          {texts.configError}. {texts.configErrorText}{' '}
          <Link to="/pipelines" className="underline">
            {texts.seeReloads}
          </Link>
        </p>
      )}
      {restart !== null && (
        <p className="bg-warn-wash text-warn rounded p-2">
          {texts.restart}: {restart}
        </p>
      )}
    </>
  );
}

type Rows = readonly (readonly [name: string, value: ReactNode])[];

function factsOf(status: Status): Rows {
  return [
    [
      texts.state,
      <Badge key="state" tone={status.status === 'serving' ? 'good' : 'bad'}>
        {texts.states[status.status] ?? status.status}
      </Badge>,
    ],
    [texts.uptime, duration(status.uptime_seconds * 1000)],
    [texts.generation, <Code key="generation" text={status.generation} />],
    [texts.active, count(status.active_requests)],
    [texts.buffered, bytes(status.buffered_bytes)],
    [texts.retiring, count(status.retiring_generations)],
  ];
}

/** The members of an object as words. */
function rowsOf(value: unknown): Rows {
  if (typeof value !== 'object' || value === null) return [];
  const told = Object.entries(value).filter(([, member]) => member !== null);
  return told.map(([name, member]) => [
    name.replaceAll('_', ' '),
    typeof member === 'object' ? JSON.stringify(member) : String(member),
  ]);
}

function Facts({ rows }: { readonly rows: Rows }) {
  return (
    <dl className="grid gap-x-6 gap-y-2 p-4 sm:grid-cols-2 xl:grid-cols-3">
      {rows.map(([name, value]) => (
        <div key={name} className="flex min-w-0 items-center justify-between gap-3">
          <dt className="text-soft">{name}</dt>
          <dd className="min-w-0 truncate tabular-nums">{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Stores({ dependencies }: Pick<Status, 'dependencies'>) {
  const rows = Object.entries(dependencies).map(([name, says]) => ({ name, says }));
  const columns: Columns<(typeof rows)[number]> = [
    { id: 'name', header: texts.name, cell: ({ row }) => row.original.name },
    {
      id: 'says',
      header: texts.says,
      cell: ({ row: { original } }) =>
        original.says === 'ok' ? (
          <Badge tone="good">{texts.ok}</Badge>
        ) : (
          <span className="inline-flex items-center gap-2">
            <Badge tone="bad">{texts.away}</Badge>
            {original.says}
          </span>
        ),
    },
  ];
  if (rows.length === 0) return <Empty title={texts.noStores} />;
  return <DataTable label={texts.storesLabel} columns={columns} rows={rows} rowId={({ name }) => name} />;
}

type Samples = readonly Sample[];

function sumOf(samples: Samples, name: string, labels: Readonly<Record<string, string>>): number {
  return samples
    .filter(
      (one) => one.name === name && Object.entries(labels).every(([key, value]) => one.labels[key] === value),
    )
    .reduce((sum, { value }) => sum + value, 0);
}

function Journal({ samples }: { readonly samples: Samples }) {
  const names = samples.flatMap(({ name, labels }) =>
    name.startsWith('weir_rows_') ? (labels['table'] ?? []) : [],
  );
  const rows = [...new Set(names)].map((table) => ({ table }));
  const column = (header: string, name: string): Columns<{ readonly table: string }>[number] => ({
    id: name,
    header,
    meta: { align: 'right' },
    cell: ({ row: { original } }) => count(sumOf(samples, name, original)),
  });
  if (rows.length === 0) return <Empty title={texts.noJournal} />;
  return (
    <DataTable
      label={texts.journal}
      columns={[
        { id: 'table', header: texts.table, cell: ({ row }) => row.original.table },
        column(texts.accepted, 'weir_rows_accepted_total'),
        column(texts.stored, 'weir_rows_stored_total'),
        column(texts.pending, 'weir_rows_pending'),
        column(texts.shed, 'weir_rows_shed_total'),
      ]}
      rows={rows}
      rowId={({ table }) => table}
    />
  );
}

interface PluginsProps {
  readonly samples: Samples;
  readonly breakers: readonly unknown[];
}

function Plugins({ samples, breakers }: PluginsProps) {
  const names = samples.flatMap(({ name, labels }) =>
    name.startsWith('weir_plugin_') ? (labels['plugin'] ?? []) : [],
  );
  const rows = [...new Set(names)].sort().map((plugin) => {
    const sum =
      sumOf(samples, 'weir_plugin_duration_seconds_sum', { plugin }) +
      sumOf(samples, 'weir_plugin_hook_seconds_sum', { plugin });
    const calls =
      sumOf(samples, 'weir_plugin_duration_seconds_count', { plugin }) +
      sumOf(samples, 'weir_plugin_hook_seconds_count', { plugin });
    const errors = sumOf(samples, 'weir_plugin_errors_total', { plugin });
    return { plugin, sum, calls, errors, isOpen: JSON.stringify(breakers).includes(JSON.stringify(plugin)) };
  });
  const columns: Columns<(typeof rows)[number]> = [
    { id: 'plugin', header: texts.plugin, cell: ({ row }) => row.original.plugin },
    {
      id: 'calls',
      header: texts.measured,
      meta: { align: 'right' },
      cell: ({ row }) => count(row.original.calls),
    },
    {
      id: 'mean',
      header: texts.mean,
      meta: { align: 'right' },
      cell: ({ row: { original } }) =>
        original.calls === 0 ? '–' : duration((original.sum / original.calls) * 1000),
    },
    {
      id: 'errors',
      header: texts.errors,
      meta: { align: 'right' },
      cell: ({ row: { original } }) =>
        original.errors === 0 ? '0' : <Badge tone="bad">{count(original.errors)}</Badge>,
    },
    {
      id: 'breaker',
      header: texts.breaker,
      cell: ({ row: { original } }) => (original.isOpen ? <Badge tone="bad">{texts.open}</Badge> : '–'),
    },
  ];
  if (rows.length === 0) return <Empty title={texts.noPlugins} />;
  return <DataTable label={texts.plugins} columns={columns} rows={rows} rowId={({ plugin }) => plugin} />;
}

const jobTones: Readonly<Record<string, Tone>> = { done: 'good', retried: 'warn', given_up: 'bad' };

function Jobs({ jobs }: Pick<Status, 'jobs'>) {
  const columns: Columns<Status['jobs'][number]> = [
    { id: 'job', header: texts.job, cell: ({ row }) => row.original.name },
    {
      id: 'last',
      header: texts.lastRun,
      cell: ({ row: { original } }) =>
        original.last_run === null ? texts.notYet : <Time iso={original.last_run.at} />,
    },
    {
      id: 'outcome',
      header: texts.outcome,
      cell: ({ row: { original } }) =>
        original.last_run !== null && (
          <Badge tone={jobTones[original.last_run.outcome] ?? 'neutral'}>
            {texts.outcomes[original.last_run.outcome] ?? original.last_run.outcome}
          </Badge>
        ),
    },
    {
      id: 'took',
      header: texts.took,
      meta: { align: 'right' },
      cell: ({ row: { original } }) => original.last_run !== null && duration(original.last_run.took_ms),
    },
    {
      id: 'times',
      header: texts.times,
      meta: { align: 'right' },
      cell: ({ row: { original } }) => count(original.attempts),
    },
    {
      id: 'failed',
      header: texts.failed,
      meta: { align: 'right' },
      cell: ({ row: { original } }) => count(original.failed),
    },
    {
      id: 'error',
      header: texts.lastError,
      cell: ({ row: { original } }) =>
        original.last_error !== null && (
          <span className="break-words">
            <Time iso={original.last_error.at} />: {original.last_error.message}
          </span>
        ),
    },
  ];
  if (jobs.length === 0) return <Empty title={texts.noJobs} />;
  return <DataTable label={texts.jobs} columns={columns} rows={jobs} rowId={({ name }) => name} />;
}
