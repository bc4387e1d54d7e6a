import { lazy, Suspense, useMemo, useRef } from 'react';
import { Link } from '@tanstack/react-router';
import { useSession } from '@/api/session';
import { useAddress, without, type Search } from '@/lib/address';
import { classes } from '@/lib/classes';
import { filtersOf, filterTexts } from '@/lib/filters';
import { count, duration, money, percent } from '@/lib/format';
import { rangeOf, searchOf } from '@/lib/time-range';
import { Groups } from '@/pages/home/groups';
import { useAnyRequest, useFigures, useFiguresBefore, type Figures } from '@/pages/home/use-home';
import { home as texts } from '@/texts/home';
import { Chart, type Series } from '@/ui/chart';
import { FilterBar } from '@/ui/filter-bar';
import { Card, Page } from '@/ui/page';
import { RangePicker } from '@/ui/range-picker';
import { Loaded, Loading } from '@/ui/states';
import { Switch } from '@/ui/switch';

const FirstRun = lazy(async () => ({ default: (await import('@/pages/start/first-run')).FirstRun }));

export default function Home() {
  const { may } = useSession();
  const { search, change } = useAddress();
  const range = rangeOf(search);
  const filters = useMemo(() => filtersOf(search), [search]);
  const live = search['live'] === true;
  const query = useFigures(range, filters, live);
  const isQuiet = query.data?.figures.summary.requests === 0;
  const before = useFiguresBefore(range, filters, query.isSuccess && !query.isPlaceholderData);
  const any = useAnyRequest(isQuiet);
  // Once it leads to the first request, it does so until that was shown to arrive.
  const began = useRef(false);
  began.current ||= isQuiet && any.data === false;
  const isEmpty = began.current && may('workspace_service_api_keys.create');
  // The log shows the same time and the same requests.
  const base = useMemo(
    (): Search => without({ ...Object.fromEntries(filterTexts(search)), ...searchOf(rangeOf(search)) }),
    [search],
  );
  return (
    <Page
      title={texts.title}
      actions={
        <>
          <Switch
            label={texts.live}
            checked={live}
            onChange={(on) => change({ live: on ? true : undefined }, { replace: true })}
          />
          <RangePicker range={range} />
        </>
      }
    >
      {isEmpty ? (
        <Suspense fallback={<Loading />}>
          <FirstRun />
        </Suspense>
      ) : (
        <>
          <FilterBar range={range} />
          {isQuiet && (
            <p role="status" className="text-soft">
              {texts.quiet}
            </p>
          )}
          <Loaded query={query} lines={8}>
            {({ figures, span }) => (
              <div className={classes('grid gap-4', query.isPlaceholderData && 'opacity-60')}>
                <Tiles now={figures} before={before.data} base={base} />
                <Charts now={figures} base={base} end={span.to} />
              </div>
            )}
          </Loaded>
          <Groups range={range} filters={filters} live={live} base={base} />
        </>
      )}
    </Page>
  );
}

interface Tile {
  readonly name: string;
  readonly now: number | null;
  /** Undefined: not known yet. */
  readonly before: number | null | undefined;
  readonly shown: (value: number) => string;
  readonly note?: string;
  /** More of it is worse. */
  readonly bad?: boolean;
  readonly search: Search;
}

function tilesOf(
  { summary: now }: Figures,
  before: Figures['summary'] | undefined,
  base: Search,
): readonly Tile[] {
  const { tiles } = texts;
  const latency = (name: 'p50' | 'p95' | 'p99'): Tile => {
    const value = now[`${name}_latency`];
    return {
      ...{ name: tiles[name], now: value, before: before?.[`${name}_latency`], shown: duration, bad: true },
      search: { ...base, ...(value !== null && { response_time_min: Math.floor(value) }) },
    };
  };
  return [
    { name: tiles.requests, now: now.requests, before: before?.requests, shown: count, search: base },
    {
      ...{ name: tiles.errors, now: now.errors, before: before?.errors, shown: count },
      ...{ bad: true, search: { ...base, success: 'false' } },
      note: now.requests > 0 ? texts.ofRequests(percent(now.errors / now.requests)) : '',
    },
    { name: tiles.cost, now: now.cost, before: before?.cost, shown: money, search: base },
    { name: tiles.tokens, now: now.tokens, before: before?.tokens, shown: count, search: base },
    latency('p50'),
    latency('p95'),
    latency('p99'),
    {
      ...{ name: tiles.hits, now: hitRate(now), before: before && hitRate(before), shown: percent },
      note: texts.hitsOf(count(now.cache_hits)),
      search: { ...base, cache_status: 'HIT,SEMANTIC HIT' },
    },
  ];
}

/** From 0 to 1; null without requests. */
function hitRate({ cache_hit_rate }: Pick<Figures['summary'], 'cache_hit_rate'>): number | null {
  return cache_hit_rate === null ? null : cache_hit_rate / 100;
}

function Tiles({
  now,
  before,
  base,
}: {
  readonly now: Figures;
  readonly before: Figures | undefined;
  readonly base: Search;
}) {
  return (
    <ul className="grid grid-cols-2 gap-3 md:grid-cols-4 2xl:grid-cols-8">
      {tilesOf(now, before?.summary, base).map((tile) => (
        <li key={tile.name} className="min-w-0">
          <Link
            to="/logs"
            search={tile.search}
            title={texts.toLogs(tile.name)}
            className="border-line bg-panel hover:border-accent block h-full rounded-lg border p-3"
          >
            <p className="text-soft text-xs font-medium">{tile.name}</p>
            <p className="text-xl font-semibold tabular-nums">
              {tile.now === null ? '–' : tile.shown(tile.now)}
            </p>
            {tile.note !== undefined && tile.note !== '' && <p className="text-soft text-xs">{tile.note}</p>}
            <Change {...tile} />
          </Link>
        </li>
      ))}
    </ul>
  );
}

function Change({ now, before, bad = false }: Pick<Tile, 'now' | 'before' | 'bad'>) {
  if (before === undefined) return <p className="text-xs">&nbsp;</p>;
  if (now === null || before === null || before === 0) return null;
  const change = (now - before) / before;
  // Beside almost nothing, a percentage says nothing.
  const shown = change > 9.99 ? texts.times(count(1 + change)) : percent(Math.abs(change));
  if (Math.abs(change) < 0.001) return <p className="text-soft text-xs">{texts.same}</p>;
  const worse = bad && change > 0.1;
  return (
    <p className={classes('text-xs', worse ? 'text-warn' : 'text-soft')} title={texts.before}>
      <span aria-hidden>{change > 0 ? '▲ ' : '▼ '}</span>
      {change > 0 ? texts.more(shown) : texts.less(shown)} <span className="sr-only">{texts.before}</span>
    </p>
  );
}

interface ChartsProps {
  readonly now: Figures;
  readonly base: Search;
  /** End of the last point, milliseconds since the epoch. */
  readonly end: number;
}

function Charts({ now, base, end }: ChartsProps) {
  const times = useMemo(() => now.data_points.map(({ timestamp }) => Date.parse(timestamp)), [now]);
  const charts = useMemo(() => chartsOf(now), [now]);
  const linkOf = (index: number): Search => {
    const from = times[index] ?? end;
    const to = times[index + 1] ?? end;
    const point = { range: undefined, from: new Date(from).toISOString(), to: new Date(to).toISOString() };
    return without({ ...base, ...point });
  };
  return (
    <div className="grid gap-3 md:grid-cols-2 2xl:grid-cols-3">
      {charts.map(({ name, series, format, extra }) => (
        <Card key={name} title={name}>
          <Chart
            name={name}
            times={times}
            series={series}
            format={format}
            linkOf={(index) => ({ ...linkOf(index), ...extra })}
          />
        </Card>
      ))}
    </div>
  );
}

interface OneChart {
  readonly name: string;
  readonly series: readonly Series[];
  readonly format: (value: number) => string;
  readonly extra?: Search;
}

function chartsOf({ data_points: points }: Figures): readonly OneChart[] {
  const { charts } = texts;
  const of = (name: 'requests' | 'errors' | 'tokens' | 'cost'): readonly number[] =>
    points.map((point) => point[name]);
  const quantile = (name: 'p50' | 'p95' | 'p99'): readonly (number | null)[] =>
    points.map((point) => point[`${name}_latency`]);
  return [
    {
      ...{ name: charts.requests, format: count },
      series: [
        { label: charts.series.requests, values: of('requests'), tone: 'accent', bars: true },
        { label: charts.series.errors, values: of('errors'), tone: 'bad', bars: true },
      ],
    },
    {
      ...{ name: charts.latency, format: duration },
      series: [
        { label: 'p50', values: quantile('p50'), tone: 'accent' },
        { label: 'p95', values: quantile('p95'), tone: 'warn' },
        { label: 'p99', values: quantile('p99'), tone: 'bad' },
      ],
    },
    {
      ...{ name: charts.cost, format: money },
      series: [{ label: charts.series.cost, values: of('cost'), tone: 'accent', bars: true }],
    },
    {
      ...{ name: charts.tokens, format: count },
      series: [{ label: charts.series.tokens, values: of('tokens'), tone: 'accent', bars: true }],
    },
    {
      ...{ name: charts.hits, format: percent, extra: { cache_status: 'HIT,SEMANTIC HIT' } },
      series: [
        {
          ...{ label: charts.series.hits, tone: 'accent' },
          values: points.map(hitRate),
        },
      ],
    },
    {
      ...{ name: charts.errors, format: percent, extra: { success: 'false' } },
      series: [
        {
          ...{ label: charts.series.rate, tone: 'bad' },
          values: points.map(({ errors, requests }) => (requests > 0 ? errors / requests : null)),
        },
      ],
    },
  ];
}
