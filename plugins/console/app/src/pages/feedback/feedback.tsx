import { useMemo } from 'react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { api, dataOf } from '@/api/client';
import { useSession } from '@/api/session';
import { textOf, useAddress, without, type Search } from '@/lib/address';
import { classes } from '@/lib/classes';
import { filtersOf, filterTexts, listText } from '@/lib/filters';
import { count } from '@/lib/format';
import { usePreferences } from '@/lib/preferences';
import { rangeOf, searchOf, spanOf, timesOf } from '@/lib/time-range';
import { ianaName } from '@/lib/zones';
import { GivenList } from '@/pages/feedback/given';
import { feedback as texts } from '@/texts/feedback';
import { Chart } from '@/ui/chart';
import { DataTable, type Columns } from '@/ui/data-table';
import { FilterBar } from '@/ui/filter-bar';
import { Card, Page } from '@/ui/page';
import { RangePicker } from '@/ui/range-picker';
import { Empty, Loaded } from '@/ui/states';

type Asked = NonNullable<Parameters<typeof readFeedback>[0]>;

async function readFeedback(
  query: ReturnType<typeof filtersOf> & ReturnType<typeof timesOf>,
  zone: string,
  signal: AbortSignal,
) {
  const [given, weighted, scores, models] = await Promise.all([
    dataOf(
      api.GET('/analytics/graphs/feedbacks', { params: { query: { ...query, time_zone: zone } }, signal }),
    ),
    dataOf(
      api.GET('/analytics/graphs/feedbacks/weighted', {
        params: { query: { ...query, time_zone: zone } },
        signal,
      }),
    ),
    dataOf(api.GET('/analytics/graphs/feedbacks/scores', { params: { query }, signal })),
    dataOf(api.GET('/analytics/graphs/feedbacks/ai-models', { params: { query }, signal })),
  ]);
  return { given, weighted, scores: scores.data_points, models: models.data_points };
}

type Found = Awaited<ReturnType<typeof readFeedback>>;
type Model = Found['models'][number];

const columns: Columns<Model> = [
  {
    id: 'model',
    header: texts.columns.model,
    accessorKey: 'ai_model',
    cell: ({ row }) => row.original.ai_model,
  },
  {
    ...{ id: 'total', header: texts.columns.total, accessorKey: 'total', meta: { align: 'right' } },
    cell: ({ row }) => count(row.original.total),
  },
  {
    ...{
      id: 'average',
      header: texts.columns.average,
      accessorFn: (row: Model) => row.avg_weighted_feedback ?? 0,
    },
    meta: { align: 'right' },
    cell: ({ row }) => scoreText(row.original.avg_weighted_feedback),
  },
];

function scoreText(value: number | null): string {
  if (value === null) return '–';
  const rounded = Math.round(value * 10) / 10;
  return rounded > 0 ? `+${rounded}` : String(rounded);
}

/** The value of the address: the list has feedback with it alone. */
function scoreOf(search: Search): number | undefined {
  const score = Number(textOf(search['value']) ?? NaN);
  return Number.isInteger(score) && Math.abs(score) <= 10 ? score : undefined;
}

export default function Feedback() {
  const { search } = useAddress();
  const { zone } = usePreferences();
  const { may } = useSession();
  const range = rangeOf(search, '7d');
  const filters = useMemo(() => filtersOf(search), [search]);
  const query = useQuery({
    queryKey: ['feedback', range, zone, filters],
    queryFn: async ({ signal }) => {
      const span = spanOf(range, zone);
      const asked: Asked = { ...filters, ...timesOf(span) };
      return { span, asked, found: await readFeedback(asked, ianaName(zone), signal) };
    },
    placeholderData: keepPreviousData,
  });
  const score = scoreOf(search);
  const base = without({ ...Object.fromEntries(filterTexts(search)), ...searchOf(range) });
  return (
    <Page title={texts.title} intro={texts.intro} actions={<RangePicker range={range} />}>
      <FilterBar range={range} />
      <Loaded query={query} lines={8}>
        {({ found, span, asked }) =>
          found.given.summary.total === 0 ? (
            <Card>
              <Empty
                title={texts.empty}
                text={texts.emptyHelp}
                action={
                  <Link to="/logs" search={base} className="text-accent underline">
                    {texts.logs}
                  </Link>
                }
              />
            </Card>
          ) : (
            <div className={classes('grid gap-4 lg:grid-cols-2', query.isPlaceholderData && 'opacity-60')}>
              <Shown found={found} base={base} end={span.to} score={score} />
              {may('feedbacks.read') && (
                <GivenList key={JSON.stringify([asked, score])} asked={asked} score={score} />
              )}
            </div>
          )
        }
      </Loaded>
    </Page>
  );
}

interface ShownProps {
  readonly found: Found;
  readonly base: Search;
  readonly end: number;
  /** The score that is chosen. */
  readonly score: number | undefined;
}

const byTotal = { id: 'total', desc: true } as const;

function Shown({ found: { given, weighted, scores, models }, base, end, score: chosen }: ShownProps) {
  const { search } = useAddress();
  const { may } = useSession();
  const navigate = useNavigate();
  const times = useMemo(() => given.data_points.map(({ timestamp }) => Date.parse(timestamp)), [given]);
  const most = Math.max(...scores.map(({ total }) => total), 1);
  const linkOf = (index: number): Search => {
    const from = times[index] ?? end;
    return without({
      ...base,
      ...{
        range: undefined,
        from: new Date(from).toISOString(),
        to: new Date(times[index + 1] ?? end).toISOString(),
      },
      weighted_feedback_min: -10,
    });
  };
  return (
    <>
      <Card title={texts.over}>
        <Chart
          name={texts.over}
          times={times}
          format={(value) => String(Math.round(value * 10) / 10)}
          linkOf={linkOf}
          series={[
            {
              label: texts.given,
              values: given.data_points.map(({ total }) => total),
              tone: 'soft',
              bars: true,
            },
            { label: texts.average, values: weighted.data_points.map(({ avg }) => avg), tone: 'accent' },
          ]}
        />
      </Card>
      <Card title={texts.scores}>
        <dl className="flex gap-8 px-4 pt-3">
          <div>
            <dt className="text-soft text-xs">{texts.given}</dt>
            <dd className="text-xl font-semibold">{count(given.summary.total)}</dd>
          </div>
          <div>
            <dt className="text-soft text-xs">{texts.average}</dt>
            <dd className="text-xl font-semibold">{scoreText(weighted.summary.avg)}</dd>
          </div>
        </dl>
        <ul className="grid gap-1 p-4" aria-label={texts.scores}>
          {scores.map(({ score, total }) => (
            <li key={score}>
              <Link
                // The log has the average of each trace, the list below what was given.
                {...(may('feedbacks.read')
                  ? { to: '.', search: { ...search, value: score }, resetScroll: false }
                  : {
                      to: '/logs',
                      search: { ...base, weighted_feedback_min: score, weighted_feedback_max: score },
                    })}
                aria-current={score === chosen ? true : undefined}
                title={texts.ofScore(scoreText(score))}
                className="hover:bg-raised aria-[current]:bg-accent-wash grid min-h-7 grid-cols-[3rem_1fr_4rem] items-center gap-2 rounded"
              >
                <span className="text-right tabular-nums">{scoreText(score)}</span>{' '}
                <span className="bg-raised h-3 rounded" aria-hidden>
                  <span
                    className={classes('block h-3 min-w-0.5 rounded', score < 0 ? 'bg-bad' : 'bg-accent')}
                    style={{ width: `${(100 * total) / most}%` }}
                  />
                </span>
                <span className="text-soft tabular-nums">{texts.of(count(total))}</span>
              </Link>
            </li>
          ))}
        </ul>
        <p className="flex gap-4 px-4 pb-4">
          <Link
            to="/logs"
            search={{ ...base, weighted_feedback_min: 0.001 }}
            className="text-accent underline"
          >
            {texts.good}
          </Link>
          <Link
            to="/logs"
            search={{ ...base, weighted_feedback_max: -0.001 }}
            className="text-accent underline"
          >
            {texts.bad}
          </Link>
        </p>
      </Card>
      <Card title={texts.models} className="lg:col-span-2">
        <DataTable
          label={texts.models}
          columns={columns}
          rows={models}
          rowId={(row) => row.ai_model}
          sort={byTotal}
          onOpen={(row) =>
            void navigate({
              to: '/logs',
              search: { ...base, ai_model: listText([row.ai_model]), weighted_feedback_min: -10 },
            })
          }
        />
      </Card>
    </>
  );
}
