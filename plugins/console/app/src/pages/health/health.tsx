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
                    <Facts rows={directoryFacts(found.directory)} />
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
                      <Facts key={index} rows={blockFacts(block)} />
                    ))}
                  </>
                )}
              </Card>
              <Card title={texts.jobs} className="lg:col-span-2">
                <p className="text-soft px-4 pt-2 text-xs">{texts.jobsIntro}</p>
                <Jobs jobs={found.jobs} />
              </Card>
              {found.workers !== undefined && found.workers.length > 0 && (
                <Card title={texts.workers} className="lg:col-span-2">
                  {found.workers.map((worker) => (
                    <section key={worker.worker} aria-label={texts.workerName(worker.worker)}>
                      <h3 className="px-4 pt-3 font-medium">{texts.workerName(worker.worker)}</h3>
                      <Facts rows={[['pid', texts.process, worker.pid], ...processFacts(worker)]} />
                    </section>
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
          {texts.reasons(reasons.join(' '))}
        </p>
      )}
      {error !== null && (
        <p role="alert" className="bg-bad-wash text-bad rounded p-2">
          {texts.configError}{' '}
          <Link to="/pipelines" className="underline">
            {texts.seeReloads}
          </Link>
        </p>
      )}
      {restart !== null && <p className="bg-warn-wash text-warn rounded p-2">{texts.restart(restart)}</p>}
    </>
  );
}

/** `raw` is the name in `GET /status`, under which operators find it. */
type Rows = readonly (readonly [raw: string, name: string, value: ReactNode])[];

function factsOf(status: Status): Rows {
  return [
    [
      'status',
      texts.state,
      <Badge key="state" tone={status.status === 'serving' ? 'good' : 'bad'}>
        {texts.states[status.status] ?? status.status}
      </Badge>,
    ],
    ...processFacts(status),
  ];
}

type ProcessState = Omit<NonNullable<Status['workers']>[number], 'worker' | 'pid'>;

/** What the one process, or each worker, says of itself. */
function processFacts(state: ProcessState): Rows {
  return [
    ['uptime_seconds', texts.uptime, duration(state.uptime_seconds * 1000)],
    ['generation', texts.generation, <Code key="generation" text={state.generation} />],
    ['active_requests', texts.active, count(state.active_requests)],
    ['buffered_bytes', texts.buffered, bytes(state.buffered_bytes)],
    ['retiring_generations', texts.retiring, count(state.retiring_generations)],
  ];
}

function directoryFacts(directory: NonNullable<Status['directory']>): Rows {
  const { standing, source, age_seconds: age, max_age_seconds: maxAge } = directory;
  const words = texts.directoryFacts;
  return [
    ['standing', words.standing, texts.standings[standing] ?? standing],
    ['source', words.source, source === null ? '–' : (texts.sources[source] ?? source)],
    ['age_seconds', words.age, age === null ? '–' : duration(age * 1000)],
    ...(maxAge === null ? [] : [['max_age_seconds', words.maxAge, duration(maxAge * 1000)] as const]),
  ];
}

function blockFacts({ plugin, hook, ms, at }: Status['loop_blocks'][number]): Rows {
  return [
    ['plugin', texts.plugin, plugin],
    ['hook', texts.hook, <code className="font-mono text-xs">{hook}</code>],
    ['ms', texts.held, duration(ms)],
    ['at', texts.at, <Time key="at" iso={at} />],
  ];
}

interface NamedProps {
  readonly texts: Readonly<Record<string, string>>;
  /** As logs, metrics and the configuration say it. */
  readonly name: string;
}

/** Words for a name of the program, and the name below them. One without words, say of a plugin's job, stands alone. */
function Named({ texts: words, name }: NamedProps) {
  const raw = <code className="font-mono text-xs">{name}</code>;
  if (words[name] === undefined) return raw;
  return (
    <span className="grid">
      {words[name]}
      <span className="text-soft">{raw}</span>
    </span>
  );
}

function Facts({ rows }: { readonly rows: Rows }) {
  return (
    <dl className="grid gap-x-6 gap-y-2 p-4 sm:grid-cols-2 xl:grid-cols-3">
      {rows.map(([raw, name, value]) => (
        <div key={raw} className="flex min-w-0 items-center justify-between gap-3">
          <dt className="text-soft" title={raw}>
            {name}
          </dt>
          <dd className="min-w-0 truncate tabular-nums">{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Stores({ dependencies }: Pick<Status, 'dependencies'>) {
  const rows = Object.entries(dependencies).map(([name, says]) => ({ name, says }));
  const columns: Columns<(typeof rows)[number]> = [
    {
      id: 'name',
      header: texts.name,
      cell: ({ row }) => <Named texts={texts.storeNames} name={row.original.name} />,
    },
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
    meta: { align: 'right', hint: name },
    cell: ({ row: { original } }) => count(sumOf(samples, name, original)),
  });
  if (rows.length === 0) return <Empty title={texts.noJournal} />;
  return (
    <DataTable
      label={texts.journal}
      columns={[
        {
          id: 'table',
          header: texts.table,
          cell: ({ row }) => <Named texts={texts.tableNames} name={row.original.table} />,
        },
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
  readonly breakers: Status['plugin_breakers'];
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
    return { plugin, sum, calls, errors, isOpen: breakers.some((one) => one.plugin === plugin) };
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
      meta: { isState: true },
      cell: ({ row: { original } }) => (original.isOpen ? <Badge tone="bad">{texts.open}</Badge> : '–'),
    },
  ];
  if (rows.length === 0) return <Empty title={texts.noPlugins} />;
  return <DataTable label={texts.plugins} columns={columns} rows={rows} rowId={({ plugin }) => plugin} />;
}

const jobTones: Readonly<Record<string, Tone>> = { done: 'good', retried: 'warn', given_up: 'bad' };

function Jobs({ jobs }: Pick<Status, 'jobs'>) {
  const columns: Columns<Status['jobs'][number]> = [
    {
      id: 'job',
      header: texts.job,
      cell: ({ row }) => <Named texts={texts.jobNames} name={row.original.name} />,
    },
    {
      id: 'last',
      header: texts.lastRun,
      cell: ({ row: { original } }) =>
        original.last_run === null ? texts.notYet : <Time iso={original.last_run.at} />,
    },
    {
      id: 'outcome',
      header: texts.outcome,
      meta: { isState: true },
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
          <span className="grid break-words">
            <Time iso={original.last_error.at} />
            {original.last_error.message}
          </span>
        ),
    },
  ];
  if (jobs.length === 0) return <Empty title={texts.noJobs} />;
  return <DataTable label={texts.jobs} columns={columns} rows={jobs} rowId={({ name }) => name} />;
}
