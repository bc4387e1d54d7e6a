import { Link } from '@tanstack/react-router';
import type { operations } from '@/api/schema.gen';
import { classes } from '@/lib/classes';
import { duration, money } from '@/lib/format';
import { traces as texts } from '@/texts/traces';
import { Badge } from '@/ui/small';

/** A trace with its requests. */
export type TraceDetail = operations['traces.get']['responses'][200]['content']['application/json'];
type Span = TraceDetail['spans'][number];

interface Line {
  readonly span: Span;
  readonly depth: number;
}

function linesOf(spans: readonly Span[], depth = 0): readonly Line[] {
  // The document does not say that children have the form of their parents; the API does.
  return spans.flatMap((span) => [{ span, depth }, ...linesOf(span.children as Span[], depth + 1)]);
}

/** Deeper requests stand no further to the right. */
const deepest = 8;

interface TraceTreeProps {
  readonly trace: TraceDetail;
  /** The request that is looked at. */
  readonly current?: string;
}

/** The requests of a trace as a tree, each with its stretch of the trace's time. */
export function TraceTree({ trace, current }: TraceTreeProps) {
  const all = Math.max(trace.duration_ms, 1);
  return (
    <div className="overflow-x-auto">
      <table
        role="table"
        className="folding-table w-full table-fixed text-left sm:min-w-[44rem]"
        aria-label={texts.tree}
      >
        <thead role="rowgroup">
          <tr role="row" className="text-soft border-line border-b text-xs">
            <th scope="col" role="columnheader" className="w-[34%] px-3 py-2 font-medium">
              {texts.columns.request}
            </th>
            <th scope="col" role="columnheader" className="w-16 px-2 py-2 font-medium">
              {texts.columns.status}
            </th>
            <th scope="col" role="columnheader" className="px-2 py-2 font-medium">
              {texts.columns.when}
            </th>
            <th scope="col" role="columnheader" className="w-20 px-2 py-2 text-right font-medium">
              {texts.columns.time}
            </th>
            <th scope="col" role="columnheader" className="w-28 px-3 py-2 text-right font-medium">
              {texts.columns.cost}
            </th>
          </tr>
        </thead>
        <tbody role="rowgroup">
          {linesOf(trace.spans).map(({ span, depth }) => (
            <tr
              key={span.id}
              role="row"
              className={classes('border-line/60 border-b', span.id === current && 'bg-accent-wash')}
              aria-current={span.id === current ? 'true' : undefined}
            >
              <td
                role="cell"
                className="truncate px-3 py-1.5"
                style={{ paddingLeft: `${0.75 + Math.min(depth, deepest) * 1.25}rem` }}
              >
                <Link
                  to="/logs/$id"
                  params={{ id: span.id }}
                  className="hover:text-accent lone-link font-medium hover:underline"
                >
                  {span.name}
                </Link>{' '}
                <span className="text-soft">{span.model}</span>
              </td>
              <td role="cell" className="is-state px-2">
                <Badge tone={span.is_success ? 'good' : 'bad'}>{span.status}</Badge>
              </td>
              <td role="cell" className="px-2 max-sm:w-full">
                <div className="bg-raised relative h-3 grow rounded">
                  <div
                    className={classes(
                      'absolute h-3 min-w-0.5 rounded',
                      span.is_success ? 'bg-accent' : 'bg-bad',
                    )}
                    title={texts.at(duration(span.start_ms), duration(span.duration_ms))}
                    style={{
                      left: `${(100 * Math.min(span.start_ms, all)) / all}%`,
                      width: `${(100 * Math.min(span.duration_ms, all - Math.min(span.start_ms, all))) / all}%`,
                    }}
                  />
                </div>
              </td>
              <td role="cell" data-label={texts.columns.time} className="px-2 text-right tabular-nums">
                {duration(span.duration_ms)}
              </td>
              <td role="cell" data-label={texts.columns.cost} className="px-3 text-right tabular-nums">
                {money(span.cost)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {trace.truncated && <p className="text-warn p-3">{texts.truncated}</p>}
    </div>
  );
}
