import { type FormEvent, useState } from 'react';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { api, dataOf } from '@/api/client';
import { count, duration } from '@/lib/format';
import { operations } from '@/texts/operations';
import { Button } from '@/ui/button';
import { Field, Input } from '@/ui/fields';
import { Card } from '@/ui/page';
import { Badge, type Tone } from '@/ui/small';

const texts = operations.pipelines.canary;
const runningMs = 2000;
/** One that begins elsewhere is seen after this time, or when the window is looked at again. */
const idleMs = 15_000;
const tones: Readonly<Record<string, Tone>> = { completed: 'good', reverted: 'bad', aborted: 'warn' };

interface CanaryFormProps {
  /** The text, and the version of the file that it was made from. */
  readonly draft: { readonly text: string; readonly version: string };
  readonly onStarted: () => void;
  readonly onFail: (error: unknown) => void;
}

/** Starts a canary: the text serves a share of the requests for some minutes before it becomes the file. */
export function CanaryForm({ draft, onStarted, onFail }: CanaryFormProps) {
  const queries = useQueryClient();
  const [share, setShare] = useState('');
  const [minutes, setMinutes] = useState('');
  const start = useMutation({
    mutationFn: () => {
      const rules = {
        ...(share !== '' && { share: Number(share) }),
        ...(minutes !== '' && { duration_s: Math.round(Number(minutes) * 60) }),
      };
      return dataOf(api.POST('/admin/config-file/canary', { body: { ...draft, ...rules } }));
    },
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ['config-canary'] });
      onStarted();
    },
    onError: onFail,
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    start.mutate();
  };
  return (
    <form
      onSubmit={submit}
      className="border-line grid gap-2 rounded border p-3"
      aria-label={texts.try.title}
    >
      <p>{texts.try.intro}</p>
      <div className="flex flex-wrap items-end gap-3">
        {[
          { label: texts.try.share, value: share, change: setShare, min: 1, max: 50 },
          { label: texts.try.minutes, value: minutes, change: setMinutes, min: 0.1, max: 1440 },
        ].map(({ label, change, ...bounds }) => (
          <Field key={label} label={label} className="w-36">
            {(control) => (
              <Input
                {...control}
                {...bounds}
                type="number"
                step="any"
                onChange={({ target }) => change(target.value)}
              />
            )}
          </Field>
        ))}
        <Button type="submit" busy={start.isPending}>
          {texts.try.start}
        </Button>
      </div>
    </form>
  );
}

/** The new configuration that serves a share of the requests, or the last one that did. Nothing where there was none. */
export function CanaryCard() {
  const queries = useQueryClient();
  const { data } = useQuery({
    queryKey: ['config-canary'],
    queryFn: ({ signal }) => dataOf(api.GET('/admin/config-file/canary', { signal })),
    refetchInterval: ({ state }) => (state.data?.canary?.phase === 'running' ? runningMs : idleMs),
    refetchOnWindowFocus: 'always',
  });
  const abort = useMutation({
    mutationFn: () => dataOf(api.DELETE('/admin/config-file/canary')),
    // It may have ended by itself a moment before.
    onSettled: () => queries.invalidateQueries({ queryKey: ['config-canary'] }),
  });
  const canary = data?.canary;
  if (canary === undefined || canary === null) return null;
  const { phase, reason, share, rules, before, after } = canary;
  const isRunning = phase === 'running';
  const leftMs = Math.max(0, Date.parse(canary.ends_at) - Date.now());
  return (
    <Card
      title={texts.title}
      actions={
        <>
          <Badge tone={tones[phase] ?? 'neutral'}>{texts.phases[phase]}</Badge>
          {isRunning && (
            <Button kind="danger" busy={abort.isPending} onClick={() => abort.mutate()}>
              {texts.abort}
            </Button>
          )}
        </>
      }
    >
      <p className="px-4 pt-3">
        {isRunning ? texts.now(share, rules.share, duration(leftMs)) : reason}{' '}
        <span className="text-soft">{texts.by(canary.started_by)}</span>
      </p>
      <table className="m-4 text-left tabular-nums" aria-label={texts.figures}>
        <thead className="text-soft">
          <tr>
            <th className="pr-6 font-normal">{texts.side}</th>
            <th className="pr-6 text-right font-normal">{texts.requests}</th>
            <th className="pr-6 text-right font-normal">{texts.errors}</th>
            <th className="pr-6 text-right font-normal">{texts.refusals}</th>
            <th className="text-right font-normal">{texts.median}</th>
          </tr>
        </thead>
        <tbody>
          {(
            [
              ['before', before],
              ['after', after],
            ] as const
          ).map(([side, figures]) => (
            <tr key={side}>
              <th className="pr-6 font-normal">{texts[side]}</th>
              <td className="pr-6 text-right">{count(figures.requests)}</td>
              <td className="pr-6 text-right">{count(figures.errors)}</td>
              <td className="pr-6 text-right">{count(figures.refusals)}</td>
              <td className="text-right">{figures.median_ms === null ? '–' : duration(figures.median_ms)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  );
}
