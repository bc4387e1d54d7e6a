import { useState, type ReactNode } from 'react';
import type { UseQueryResult } from '@tanstack/react-query';
import type { operations } from '@/api/schema.gen';
import { list, percent } from '@/lib/format';
import { configs } from '@/texts/configs';
import { Field, Input, Select } from '@/ui/fields';
import { Badge } from '@/ui/small';
import { Failed } from '@/ui/states';

const texts = configs.explain;

export type Plan = operations['configs.explain']['responses'][200]['content']['application/json']['data'];

/** The request that is thought of. */
export interface Sample {
  readonly path: string;
  readonly model: string;
  readonly message: string;
  /** JSON. */
  readonly metadata: string;
}

export const firstSample: Sample = {
  path: '/v1/chat/completions',
  model: 'gpt-4o-mini',
  message: configs.explain.hello,
  metadata: '{}',
};

const paths = ['/v1/chat/completions', '/v1/responses', '/v1/messages', '/v1/embeddings'] as const;

function metadataOf(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text.trim() || '{}');
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

/** The sample as the API takes it. */
export function requestOf({ path, model, message, metadata }: Sample, prefix: string) {
  const told = metadataOf(metadata) ?? {};
  const body =
    path === '/v1/embeddings' || path === '/v1/responses'
      ? { model, input: message }
      : { model, max_tokens: 256, messages: [{ role: 'user', content: message }] };
  return { path, headers: { [`${prefix}-metadata`]: JSON.stringify(told) }, body };
}

interface ExplainPanelProps {
  readonly sample: Sample;
  readonly onSample: (sample: Sample) => void;
  readonly plan: Pick<UseQueryResult<Plan>, 'data' | 'error'>;
  /** The config has faults: there is no plan of it. */
  readonly hasFaults: boolean;
  /** Shows a place of the config in the text. */
  readonly onReveal: (option: string) => void;
}

/** Where a sample request would go, beside the text that decides it. */
export function ExplainPanel({ sample, onSample, plan, hasFaults, onReveal }: ExplainPanelProps) {
  const [metadata, setMetadata] = useState(sample.metadata);
  const fault = metadataOf(metadata) === undefined ? texts.metadataFault : undefined;
  const set = (change: Partial<Sample>): void => onSample({ ...sample, ...change });
  return (
    <div className="grid gap-4 p-4">
      <div className="grid grid-cols-2 gap-3">
        <Field label={texts.path}>
          {(control) => (
            <Select
              {...control}
              value={sample.path}
              options={paths.map((path) => [path, path])}
              onChange={(event) => set({ path: event.target.value })}
            />
          )}
        </Field>
        <Field label={texts.model}>
          {(control) => (
            <Input
              {...control}
              value={sample.model}
              onChange={(event) => set({ model: event.target.value })}
            />
          )}
        </Field>
        <Field label={texts.message}>
          {(control) => (
            <Input
              {...control}
              value={sample.message}
              onChange={(event) => set({ message: event.target.value })}
            />
          )}
        </Field>
        <Field label={texts.metadata} fault={fault}>
          {(control) => (
            <Input
              {...control}
              className="font-mono text-xs"
              value={metadata}
              onChange={(event) => {
                setMetadata(event.target.value);
                if (metadataOf(event.target.value) !== undefined) set({ metadata: event.target.value });
              }}
            />
          )}
        </Field>
      </div>
      {hasFaults || plan.data === undefined ? (
        plan.error && !hasFaults ? (
          <Failed error={plan.error} />
        ) : (
          <p className="text-soft">{texts.fix}</p>
        )
      ) : (
        <PlanView plan={plan.data} onReveal={onReveal} />
      )}
    </div>
  );
}

function PlanView({ plan, onReveal }: { readonly plan: Plan; readonly onReveal: (option: string) => void }) {
  return (
    <section aria-label={texts.plan} className="grid gap-4">
      <h2 className="font-semibold">{texts.plan}</h2>
      {plan.refused !== null && (
        <p role="alert" className="bg-bad-wash text-bad rounded p-2">
          {texts.refused(plan.refused.status, plan.refused.code, plan.refused.message)}
        </p>
      )}
      <ol className="grid gap-3">
        {plan.tries.map((one, index) => (
          <li key={one.option} className="border-line rounded-md border p-3">
            <div className="flex flex-wrap items-center gap-2">
              <Badge tone={index === 0 ? 'accent' : 'neutral'}>{index + 1}</Badge>
              <button
                type="button"
                className="text-accent min-w-0 truncate font-medium underline"
                onClick={() => onReveal(one.option)}
              >
                {one.name ?? one.option}
              </button>
              {one.name !== null && <code className="text-soft font-mono text-xs">{one.option}</code>}
            </div>
            {one.problem !== null && <p className="text-bad mt-1">{one.problem}</p>}
            <dl className="mt-2 grid grid-cols-[6rem_1fr] gap-x-3 gap-y-1">
              {factsOf(one).map(([name, value]) => (
                <div key={name} className="contents">
                  <dt className="text-soft">{name}</dt>
                  <dd className="min-w-0 break-words">{value}</dd>
                </div>
              ))}
            </dl>
          </li>
        ))}
      </ol>
      {plan.truncated && <p className="text-warn">{texts.truncated}</p>}
      {plan.branches.length > 0 && (
        <div>
          <h3 className="font-semibold">{texts.decisions}</h3>
          <ul className="mt-1 grid gap-2">
            {plan.branches.map((branch) => (
              <li key={branch.path}>
                <code className="font-mono text-xs">{branch.path}</code>: {branch.mode}
                {branch.reason !== undefined && <> ({branch.reason})</>}
                {branch.random && <span className="text-soft"> ({texts.byChance})</span>}
                <ul className="text-soft pl-4">
                  {branch.candidates.map((one) => (
                    <li key={one.path}>
                      {one.order === undefined ? '–' : `${one.order}.`} {one.name ?? one.path}
                      {one.chance !== undefined && `, ${texts.chance(percent(one.chance))}`}
                      {one.skipped !== undefined && `, ${texts.left(one.skipped)}`}
                    </li>
                  ))}
                </ul>
              </li>
            ))}
          </ul>
        </div>
      )}
      <ul className="text-soft text-xs">
        {plan.assumptions.map((one) => (
          <li key={one}>{one}</li>
        ))}
      </ul>
    </section>
  );
}

function factsOf(one: Plan['tries'][number]): readonly (readonly [string, ReactNode])[] {
  const { retry, cache, breaker, hedge } = one;
  const times = [
    [texts.request, one.request_timeout_ms],
    [texts.firstToken, one.first_token_timeout_ms],
    [texts.idle, one.idle_timeout_ms],
  ] as const;
  const timeouts = times.flatMap(([words, ms]) => (ms === null ? [] : [words(texts.milliseconds(ms))]));
  const sets = Object.entries(one.params.set).map(([name, value]) => `${name} = ${JSON.stringify(value)}`);
  const rows: readonly (readonly [string, string])[] = [
    [texts.provider, one.provider || texts.ofTheRequest],
    [texts.modelSent, one.model],
    [texts.sets, list(sets)],
    [texts.removes, list(one.params.removed)],
    [texts.timeouts, list(timeouts)],
    [
      texts.retries,
      retry === null || retry.attempts === 0 ? '' : texts.times(retry.attempts, list(retry.on_status_codes)),
    ],
    [texts.cache, cache === null ? '' : cache.mode],
    [texts.breaker, breaker === null ? '' : texts.opens(breaker.failure_threshold)],
    [texts.hedge, hedge === null ? '' : texts.hedged(texts.milliseconds(hedge.after_ms), list(hedge.others))],
    [
      texts.onFailure,
      one.on_failure
        .map(({ statuses, then }) => texts.with(statuses === null ? texts.any : list(statuses), then))
        .join('; ') || texts.end,
    ],
  ];
  return rows.filter(([, value]) => value !== '');
}
