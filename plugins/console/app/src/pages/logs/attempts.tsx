import { classes } from '@/lib/classes';
import { duration } from '@/lib/format';
import { statusTone } from '@/pages/logs/columns';
import type { LogDetail } from '@/pages/logs/timings';
import { log } from '@/texts/log';
import { Badge } from '@/ui/small';
import { Empty } from '@/ui/states';

const texts = log.attempts;

type Attempt = NonNullable<LogDetail['tries']>[number];

interface Candidate {
  readonly path: string;
  readonly name?: string;
  readonly order?: number;
  readonly score?: number;
  readonly skipped?: string;
}

/** Decisions of the gateway, as `explain` notes them. */
interface Decision {
  readonly plan?: readonly {
    readonly path: string;
    readonly mode: string;
    readonly reason?: string;
    readonly candidates?: readonly Candidate[];
  }[];
  readonly plugins?: readonly {
    readonly plugin: string;
    readonly hook: string;
    readonly ms: number;
    readonly error?: string;
    readonly skipped?: string;
  }[];
}

/** Attempts on the time line of the request, and why they were made. */
export function Attempts({ entry }: { readonly entry: LogDetail }) {
  const { tries, metrics } = entry;
  const decision = entry.decision as Decision | null;
  return (
    <div className="grid gap-4 p-4">
      {tries === null || tries.length === 0 ? (
        <Empty title={texts.none} />
      ) : (
        <ol aria-label={texts.label} className="grid gap-3">
          {tries.map((attempt, index) => (
            <Line key={index} attempt={attempt} all={metrics.latency_ms} upstream={metrics.upstream_ms} />
          ))}
        </ol>
      )}
      {decision === null ? (
        <p className="text-soft text-xs">{texts.explain}</p>
      ) : (
        <>
          <Plan decision={decision} />
          <Hooks decision={decision} />
        </>
      )}
    </div>
  );
}

interface LineProps {
  readonly attempt: Attempt;
  readonly all: number;
  readonly upstream: number;
}

function Line({ attempt, all, upstream }: LineProps) {
  const { provider, model, status, error, lost, skipped, option } = attempt;
  const start = attempt.start_ms ?? Math.max(0, all - upstream);
  const end = attempt.end_ms ?? all;
  const place = (ms: number): number => (100 * Math.min(Math.max(ms, 0), all)) / Math.max(all, 0.001);
  return (
    <li className="grid gap-1">
      <p className="flex flex-wrap items-center gap-2">
        <span className="font-medium">{provider}</span>
        <span className="text-soft break-all">{model}</span>
        {skipped === undefined && (
          <Badge tone={lost ? statusTone(Math.max(status, 400)) : statusTone(status)}>
            {status === 0 ? texts.aborted : status}
          </Badge>
        )}
        <Badge tone={lost ? 'warn' : skipped === undefined ? 'good' : 'neutral'}>
          {skipped !== undefined ? texts.skipped(skipped) : lost ? texts.lost : texts.served}
        </Badge>
        {error !== '' && <code className="text-bad font-mono text-xs">{error}</code>}
        <span className="grow" />
        <span className="text-soft text-xs break-all">{option}</span>
        <span className="tabular-nums">{duration(Math.max(0, end - start))}</span>
      </p>
      {skipped === undefined && (
        <div className="bg-raised relative h-2 rounded" aria-hidden>
          <div
            className={classes('absolute h-2 min-w-0.5 rounded', lost ? 'bg-bad' : 'bg-accent')}
            style={{ left: `${place(start)}%`, width: `${place(end) - place(start)}%` }}
          />
        </div>
      )}
    </li>
  );
}

function Plan({ decision: { plan = [] } }: { readonly decision: Decision }) {
  if (plan.length === 0) return null;
  return (
    <section className="grid gap-2">
      <h3 className="font-semibold">{texts.plan}</h3>
      {plan.map(({ path, mode, reason, candidates = [] }) => (
        <div key={path} className="border-line rounded-md border p-3">
          <p>
            <code className="font-mono text-xs">{path}</code> <span className="font-medium">{mode}</span>
            {reason !== undefined && <span className="text-soft"> · {reason}</span>}
          </p>
          <ul className="mt-1 grid gap-1" aria-label={texts.candidates}>
            {candidates.map((one) => (
              <li key={one.path} className="flex flex-wrap gap-2">
                <code className="font-mono text-xs">{one.name ?? one.path}</code>
                <span className="text-soft text-xs">
                  {[
                    one.order === undefined ? texts.notTried : texts.order(String(one.order)),
                    one.score === undefined ? '' : texts.score(String(one.score)),
                    one.skipped ?? '',
                  ]
                    .filter((text) => text !== '')
                    .join(' · ')}
                </span>
              </li>
            ))}
          </ul>
        </div>
      ))}
    </section>
  );
}

function Hooks({ decision: { plugins = [] } }: { readonly decision: Decision }) {
  if (plugins.length === 0) return null;
  const longest = Math.max(...plugins.map(({ ms }) => ms), 0.001);
  return (
    <section className="grid gap-2">
      <h3 className="font-semibold">{texts.hooks}</h3>
      <ul className="grid gap-1">
        {plugins.map(({ plugin, hook, ms, error, skipped }, index) => (
          <li key={index} className="grid grid-cols-[14rem_1fr_5rem] items-center gap-2">
            <span className="truncate">
              {plugin} <span className="text-soft">{hook}</span>{' '}
              {(error ?? skipped) !== undefined && <Badge tone="warn">{error ?? skipped}</Badge>}
            </span>
            <div className="bg-raised h-2 rounded" aria-hidden>
              <div
                className="bg-accent h-2 min-w-0.5 rounded"
                style={{ width: `${(100 * ms) / longest}%` }}
              />
            </div>
            <span className="text-right tabular-nums">{duration(ms)}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}
