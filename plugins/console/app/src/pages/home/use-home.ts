import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { api, dataOf } from '@/api/client';
import type { operations } from '@/api/schema.gen';
import type { Filters } from '@/lib/filters';
import { usePreferences } from '@/lib/preferences';
import { spanBefore, spanOf, timesOf, type Range, type Span } from '@/lib/time-range';
import { dayBefore, ianaName, type Zone } from '@/lib/zones';
import type { Sort } from '@/ui/data-table';

/** Where a switch follows what comes. */
const liveMs = 5_000;

type Asked = Filters & { readonly time_zone: string } & ReturnType<typeof timesOf>;

/** The numbers of a period, over time and as a whole. */
export type Figures = Awaited<ReturnType<typeof figuresOf>>;

function figuresOf(query: Asked & { readonly granularity?: 'month' }, signal: AbortSignal) {
  return dataOf(api.GET('/analytics/graphs/overview', { params: { query }, signal }));
}

function comparedWith(range: Range, span: Span, zone: Zone): Span {
  // Of today, the same hours of yesterday.
  if (range.name === 'today')
    return { from: dayBefore(span.from, zone), to: dayBefore(span.to, zone), isOpen: false };
  return spanBefore(span);
}

/** The period that is shown. */
export function useFigures(range: Range, filters: Filters, live: boolean) {
  const { zone } = usePreferences();
  return useQuery({
    queryKey: ['figures', range, zone, filters],
    queryFn: async ({ signal }) => {
      const span = spanOf(range, zone);
      const asked = { ...filters, time_zone: ianaName(zone), ...timesOf(span) };
      return { span, figures: await figuresOf(asked, signal) };
    },
    placeholderData: keepPreviousData,
    refetchInterval: live ? liveMs : false,
  });
}

/** The period before it, once that one is there: its numbers are the ones that are waited for. */
export function useFiguresBefore(range: Range, filters: Filters, enabled: boolean) {
  const { zone } = usePreferences();
  return useQuery({
    queryKey: ['figures-before', range, zone, filters],
    queryFn: ({ signal }) => {
      const times = timesOf(comparedWith(range, spanOf(range, zone), zone));
      return figuresOf({ ...filters, time_zone: ianaName(zone), ...times, granularity: 'month' }, signal);
    },
    enabled,
    staleTime: 60_000,
  });
}

/** Whether any request came within a month. */
export function useAnyRequest(enabled: boolean) {
  return useQuery({
    queryKey: ['any-request'],
    enabled,
    queryFn: async ({ signal }) => {
      const query = { ...timesOf(spanOf({ name: '30d' }, 'utc')), granularity: 'month' as const };
      return (
        (await dataOf(api.GET('/analytics/graphs/requests', { params: { query }, signal }))).summary.total > 0
      );
    },
  });
}

export const groupings = ['model', 'provider', 'workspace', 'api_key', 'user'] as const;
export type Grouping = (typeof groupings)[number];

/** Requests that share a value. */
export interface Group {
  readonly value: string;
  readonly requests: number;
  readonly cost: number;
  readonly tokens: number;
  readonly average: number | null;
  readonly p95: number | null;
  readonly errors: number;
  readonly success: number;
  readonly hits: number;
  readonly seen: string;
}

const columns = 'cost,total_tokens,avg_latency,p95_latency,error_count,success_rate,cache_hit_rate,last_seen';
/** Groups that are asked for, the first ones of their order. */
export const mostGroups = 200;
type Order = NonNullable<NonNullable<operations['analytics.groups']['parameters']['query']>['order_by']>;

/** The figure behind each column that the gateway orders by; by name, those with the most requests are shown. */
const orders: Readonly<Partial<Record<string, Order>>> = {
  ...{ cost: 'cost', tokens: 'total_tokens', average: 'avg_latency', p95: 'p95_latency' },
  ...{ errors: 'error_count', success: 'success_rate', hits: 'cache_hit_rate', seen: 'last_seen' },
};

export function useGroups(by: Grouping, range: Range, filters: Filters, live: boolean, sort: Sort) {
  const order_by = orders[sort.id] ?? 'requests';
  const order = sort.desc || sort.id === 'value' ? 'desc' : 'asc';
  const { zone } = usePreferences();
  return useQuery({
    queryKey: ['groups', by, range, zone, filters, order_by, order],
    queryFn: async ({ signal }) => {
      const page = { columns, page_size: mostGroups, order_by, order } as const;
      const query = { ...filters, ...timesOf(spanOf(range, zone)), ...page };
      const { total, data } =
        by === 'user'
          ? await dataOf(api.GET('/analytics/groups/users', { params: { query }, signal }))
          : await dataOf(
              api.GET('/analytics/groups/{groupBy}', { params: { path: { groupBy: by }, query }, signal }),
            );
      return { total, groups: data.map((row) => groupOf(by, row)) };
    },
    placeholderData: keepPreviousData,
    refetchInterval: live ? liveMs : false,
  });
}

function groupOf(by: Grouping, row: Readonly<Record<string, unknown>>): Group {
  const number = (name: string): number => Number(row[name] ?? 0);
  const figure = (name: string): number | null => (typeof row[name] === 'number' ? row[name] : null);
  return {
    value: String(row[by] ?? ''),
    requests: number('requests'),
    cost: number('cost'),
    tokens: number('total_tokens'),
    average: figure('avg_latency'),
    p95: figure('p95_latency'),
    errors: number('error_count'),
    success: number('success_rate'),
    hits: number('cache_hit_rate'),
    seen: String(row['last_seen'] ?? ''),
  };
}
