import { lazy, Suspense, useState, type ReactNode } from 'react';
import { Link } from '@tanstack/react-router';
import type { Search } from '@/lib/address';
import { count, moment } from '@/lib/format';
import { usePreferences } from '@/lib/preferences';
import { home } from '@/texts/home';

const texts = home.charts;
const Plot = lazy(() => import('@/ui/plot'));

/** One line of a chart. */
export interface Series {
  readonly label: string;
  readonly values: readonly (number | null)[];
  /** A colour of the looks. */
  readonly tone: 'accent' | 'bad' | 'warn' | 'soft';
  /** Columns from the ground up instead of a line. */
  readonly bars?: boolean;
}

export interface ChartProps {
  readonly name: string;
  /** Beginnings of the points, milliseconds since the epoch. */
  readonly times: readonly number[];
  readonly series: readonly Series[];
  readonly format: (value: number) => string;
  /** Parameters of the log for the requests of a point. */
  readonly linkOf: (index: number) => Search;
}

/** Values over time; a table behind it says the same to everybody, and leads to the requests. */
export function Chart(props: ChartProps): ReactNode {
  const { name, times, series, format, linkOf } = props;
  const { zone } = usePreferences();
  const [open, setOpen] = useState(false);
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-1 p-3">
      <div
        role="img"
        aria-label={texts.summary(name, count(times.length))}
        className="h-60 overflow-hidden"
        title={texts.hint}
      >
        <Suspense fallback={<div className="bg-raised h-60 animate-pulse rounded" />}>
          <Plot {...props} />
        </Suspense>
      </div>
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary className="text-soft w-fit cursor-pointer text-xs">{texts.table}</summary>
        {open && (
          <div
            className="mt-1 max-h-64 overflow-auto"
            tabIndex={0}
            role="region"
            aria-label={texts.tableOf(name)}
          >
            <table className="w-full text-left text-xs tabular-nums" aria-label={name}>
              <thead>
                <tr className="text-soft">
                  <th scope="col" className="py-1 font-medium">
                    {texts.time}
                  </th>
                  {series.map(({ label }) => (
                    <th key={label} scope="col" className="px-2 text-right font-medium">
                      {label}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {times.map((time, index) => (
                  <tr key={time} className="border-line/60 border-t">
                    <td>
                      <Link
                        to="/logs"
                        search={linkOf(index)}
                        className="text-accent inline-block leading-7 hover:underline"
                      >
                        {moment(new Date(time).toISOString(), zone)}
                      </Link>
                    </td>
                    {series.map(({ label, values }) => {
                      const value = values[index];
                      return (
                        <td key={label} className="px-2 text-right">
                          {typeof value === 'number' ? format(value) : '–'}
                        </td>
                      );
                    })}
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </details>
    </div>
  );
}
