import type { operations } from '@/api/schema.gen';
import { count, duration, percent } from '@/lib/format';
import { log as texts } from '@/texts/log';

/** One entry whole. */
export type LogDetail = operations['logs.get']['responses'][200]['content']['application/json'];
type Attempt = NonNullable<LogDetail['tries']>[number];

/** A stretch of the request's time. */
export interface Phase {
  readonly kind: 'gateway' | 'failed' | 'waiting' | 'streaming';
  /** Milliseconds. */
  readonly ms: number;
}

/** Times of a request that went to a provider before the attempt that was served. */
function lostBefore(tries: LogDetail['tries']): number {
  const served = tries?.findLast((attempt) => !attempt.lost && attempt.skipped === undefined);
  const end = served?.start_ms ?? Infinity;
  const lost = (tries ?? [])
    .filter((attempt) => attempt.lost && attempt.start_ms !== null && attempt.end_ms !== null)
    .map((attempt) => [attempt.start_ms ?? 0, Math.min(attempt.end_ms ?? 0, end)] as const)
    .sort(([a], [b]) => a - b);
  // Attempts of a race overlap: their time counts once.
  let sum = 0;
  let until = 0;
  for (const [from, to] of lost) {
    const start = Math.max(from, until);
    if (to > start) sum += to - start;
    until = Math.max(until, to);
  }
  return sum;
}

/** Where the time of a request went, in the order in which it passed; stretches of nothing are left out. */
export function phasesOf({ metrics, tries }: Pick<LogDetail, 'metrics' | 'tries'>): readonly Phase[] {
  const { latency_ms: all, upstream_ms: upstream, first_byte_ms: first } = metrics;
  const failed = Math.min(lostBefore(tries), Math.max(0, all - upstream));
  const waiting = Math.min(first > 0 ? first : upstream, upstream);
  const phases: readonly Phase[] = [
    { kind: 'gateway', ms: Math.max(0, all - upstream - failed) },
    { kind: 'failed', ms: failed },
    { kind: 'waiting', ms: waiting },
    { kind: 'streaming', ms: Math.max(0, upstream - waiting) },
  ];
  return phases.filter(({ ms }) => ms > 0.05);
}

/** Why the request took as long as it did, in a sentence. */
export function reasonOf(entry: Pick<LogDetail, 'metrics' | 'tries'>): string {
  const { metrics } = entry;
  const phases = phasesOf(entry);
  const { reason } = texts;
  if (metrics.cache_status.endsWith('HIT')) return reason.cache(duration(metrics.latency_ms));
  if (metrics.upstream_ms === 0 && metrics.attempts === 0) return reason.none(duration(metrics.latency_ms));
  const longest = phases.toSorted((a, b) => b.ms - a.ms)[0];
  if (longest === undefined) return reason.none(duration(metrics.latency_ms));
  const part = [
    duration(longest.ms),
    duration(metrics.latency_ms),
    percent(longest.ms / metrics.latency_ms),
  ] as const;
  const whose = metrics.provider || metrics.mcp_server || metrics.ai_service;
  if (longest.kind === 'failed') return reason.failed(...part, String(lostOf(entry.tries).length));
  if (longest.kind === 'waiting') return reason.waiting(...part, whose);
  if (longest.kind === 'gateway') return reason.gateway(...part);
  const rate = metrics.completion_tokens / (longest.ms / 1000);
  return reason.streaming(...part, count(metrics.completion_tokens), count(rate));
}

function lostOf(tries: LogDetail['tries']): readonly Attempt[] {
  return (tries ?? []).filter(({ lost, skipped }) => lost && skipped === undefined);
}

/** A command that sends the request again. Masked values become a variable of the shell. */
export function curlOf({ request }: Pick<LogDetail, 'request'>, origin: string): string {
  const quoted = (value: string): string => `'${value.replaceAll("'", `'\\''`)}'`;
  const headers = Object.entries(request.headers ?? { 'content-type': 'application/json' })
    .filter(([name]) => !unsent.has(name))
    .map(([name, value]) =>
      value.includes('***')
        ? `-H "${name}: ${name === 'authorization' ? 'Bearer ' : ''}$WEIR_KEY"`
        : `-H ${quoted(`${name}: ${value}`)}`,
    );
  if (!headers.some((header) => header.includes('$WEIR_KEY')))
    headers.push('-H "authorization: Bearer $WEIR_KEY"');
  const { body } = request;
  const data =
    body === null || body === undefined
      ? []
      : [`-d ${quoted(typeof body === 'string' ? body : JSON.stringify(body))}`];
  return [`curl -X ${request.method} ${quoted(origin + request.url)}`, ...headers, ...data].join(' \\\n  ');
}

/** Headers that belong to the connection, not to the request. */
const unsent = new Set([
  'host',
  'connection',
  'content-length',
  'accept-encoding',
  'transfer-encoding',
  'cookie',
]);
