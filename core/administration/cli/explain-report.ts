import { stringify } from 'lossless-json';
import { listWords } from '../../base/word-list.ts';
import type { OfflinePlan } from '../../routing/explain/offline-plan.ts';
import type { BranchPreview, CandidatePreview } from '../../routing/explain/plan-preview.ts';

type OfflineTry = OfflinePlan['tries'][number];

/** Longest value of a parameter that is shown, in UTF-16 units. */
const maxValue = 200;

/** The plan for people. */
export function explainText(plan: OfflinePlan): string {
  const { config, request, branches, tries, refused, assumptions } = plan;
  const lines = [
    `Config    ${config.slug ?? 'as given'}`,
    `Request   ${request.method} ${request.path}`,
    '',
    ...branches.flatMap(branchLines),
    ...(branches.length > 0 ? [''] : []),
  ];
  if (refused !== undefined)
    lines.push(`The request is refused: ${refused.status} ${refused.code}. ${refused.message}`, '');
  lines.push(...tries.flatMap((one, index) => [...tryLines(one, index + 1), '']));
  return [...lines, ...assumptions].join('\n');
}

function branchLines({ path, mode, reason, random, candidates }: BranchPreview): string[] {
  const why = reason === undefined ? '' : ` (${reason})`;
  const chance = random ? ', by chance: this is one example' : '';
  return [`${path}: ${mode}${why}${chance}`, ...candidates.map((note) => candidateLine(note, mode))];
}

function candidateLine(
  { path, name, order, score, chance, skipped }: CandidatePreview,
  mode: string,
): string {
  const notes = [
    ...(score === undefined ? [] : [scoreText(score, mode)]),
    ...(chance === undefined ? [] : [`first in ${percentText(chance)} of all requests`]),
    ...(skipped === undefined ? [] : [`left out: ${skipped}`]),
  ];
  const label = name === undefined ? path : `${path} "${name}"`;
  const place = order === undefined ? '-' : String(order);
  return `  ${place.padStart(2)}  ${label}${notes.length === 0 ? '' : `  ${notes.join(', ')}`}`;
}

function scoreText(score: number, mode: string): string {
  if (mode === 'least-latency') return `${score.toFixed(0)} ms`;
  if (mode === 'least-cost') return `about $${score.toPrecision(3)}`;
  return mode === 'canary' ? `${score} %` : `weight ${score}`;
}

function percentText(chance: number): string {
  return `${Number((chance * 100).toFixed(1))} %`;
}

function tryLines({ leaf, hedge, rules, target }: OfflineTry, order: number): string[] {
  const { params, retry, cache, breaker } = target;
  const where = target.host === '' ? '' : ` at ${target.host}`;
  const rows: [label: string, text: string][] = [
    ['provider', `${target.provider || 'that of the request'}${where}`],
    ['model', target.model],
    ['params', paramsText(params)],
    ['timeouts', timeoutsText(target)],
    ['retry', retry === undefined || retry.attempts === 0 ? 'none' : retryText(retry)],
    ['cache', cache === undefined ? 'as the cache plugin says' : cacheText(cache)],
    ['breaker', breaker === undefined ? '' : `opens after ${breaker.failureThreshold} failures`],
    ['hedge', hedge === undefined ? '' : hedgeText(hedge)],
    ['problem', target.problem ?? ''],
    ...rules.map((rule): [string, string] => ['failure', `if it fails with ${ruleText(rule)}`]),
  ];
  if (rules.length === 0) rows.push(['failure', 'the end: its failure is the answer']);
  const label = leaf.name === undefined ? leaf.path : `${leaf.path} "${leaf.name}"`;
  const shown = rows.filter(([, text]) => text !== '');
  return [`${order}. ${label}`, ...shown.map(([name, text]) => `   ${name.padEnd(9)} ${text}`)];
}

function ruleText({ statuses, by, then }: OfflineTry['rules'][number]): string {
  const what = statuses === undefined ? 'anything but 2xx' : listWords(statuses.map(String), 'or', 20);
  return `${what} → ${then} (${by})`;
}

function paramsText({ set, removed }: OfflineTry['target']['params']): string {
  const values = Object.entries(set).map(([name, value]) => {
    const text = stringify(value) ?? '';
    return `${name} = ${text.length > maxValue ? `${text.slice(0, maxValue)}…` : text}`;
  });
  const parts = [...(values.length === 0 ? [] : [`set ${values.join(', ')}`])];
  if (removed.length > 0) parts.push(`remove ${removed.join(', ')}`);
  return parts.join('; ');
}

function timeoutsText({
  requestTimeoutMs,
  firstTokenTimeoutMs,
  idleTimeoutMs,
}: OfflineTry['target']): string {
  const named = [
    ['request', requestTimeoutMs],
    ['first token', firstTokenTimeoutMs],
    ['idle', idleTimeoutMs],
  ] as const;
  const known = named.flatMap(([name, ms]) => (ms === undefined ? [] : [`${name} ${ms} ms`]));
  const rest = known.length === named.length ? [] : ['as the provider plugin says'];
  return [...known, ...rest].join(', ');
}

function retryText(retry: NonNullable<OfflineTry['target']['retry']>): string {
  const codes = listWords([...retry.onStatusCodes].map(String), 'or', 20);
  const waits = retry.useRetryAfter ? ', waiting as long as the answer asks' : '';
  const times = retry.attempts === 1 ? 'once' : `up to ${retry.attempts} times`;
  return `${times} on ${codes}${waits}`;
}

function cacheText({ mode, maxAgeMs, threshold }: NonNullable<OfflineTry['target']['cache']>): string {
  const age = maxAgeMs === undefined ? '' : `, ${maxAgeMs / 1000} s`;
  return `${mode}${age}${threshold === undefined ? '' : `, similar from ${threshold} on`}`;
}

function hedgeText({ afterMs, others }: NonNullable<OfflineTry['hedge']>): string {
  return `after ${afterMs} ms without an answer: ${others.map(({ path }) => path).join(', ')}`;
}

/** The plan for programs. */
export function explainJson(plan: OfflinePlan): string {
  const { config, request, branches, tries, refused, assumptions } = plan;
  const document = {
    config: config.id,
    request: { method: request.method, path: request.path },
    branches,
    tries: tries.map(tryJson),
    refused:
      refused === undefined ? null : { status: refused.status, code: refused.code, message: refused.message },
    assumptions,
  };
  return stringify(document, null, 2) ?? '';
}

function tryJson({ leaf, hedge, rules, target }: OfflineTry): object {
  const { provider, host, model, params, retry, cache, breaker, problem = null } = target;
  return {
    ...{ option: leaf.path, name: leaf.name ?? null, provider, host, model, params },
    request_timeout_ms: target.requestTimeoutMs ?? null,
    first_token_timeout_ms: target.firstTokenTimeoutMs ?? null,
    idle_timeout_ms: target.idleTimeoutMs ?? null,
    retry:
      retry === undefined
        ? null
        : {
            attempts: retry.attempts,
            on_status_codes: [...retry.onStatusCodes],
            use_retry_after_headers: retry.useRetryAfter,
          },
    cache:
      cache === undefined
        ? null
        : { mode: cache.mode, max_age_ms: cache.maxAgeMs ?? null, threshold: cache.threshold ?? null },
    breaker:
      breaker === undefined
        ? null
        : { failure_threshold: breaker.failureThreshold, cooldown_ms: breaker.cooldownMs },
    hedge:
      hedge === undefined ? null : { after_ms: hedge.afterMs, others: hedge.others.map(({ path }) => path) },
    on_failure: rules.map(({ statuses, by, then }) => ({ statuses: statuses ?? null, by, then })),
    problem,
  };
}
