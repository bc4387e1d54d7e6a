import { useEffect, useRef } from 'react';
import { useNavigate } from '@tanstack/react-router';
import UPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { usePreferences } from '@/lib/preferences';
import type { Zone } from '@/lib/zones';
import { home } from '@/texts/home';
import type { ChartProps, Series } from '@/ui/chart';

const texts = home.charts;

/** Draws a chart. It is loaded when the first one is seen. */
export default function Plot({ times, series, format, linkOf }: ChartProps) {
  const { zone, isDark } = usePreferences();
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<UPlot>(undefined);
  const navigate = useNavigate();
  const go = useRef<(index: number) => void>(() => undefined);
  go.current = (index) => void navigate({ to: '/logs', search: linkOf(index) });
  const formatting = useRef(format);
  formatting.current = format;
  const shape = series.map(({ label, tone, bars }) => `${label} ${tone} ${String(bars)}`).join();
  const data = useRef<UPlot.AlignedData>([[]]);
  data.current = [times.map((time) => time / 1000), ...series.map(({ values }) => [...values])];

  useEffect(() => {
    const host = box.current;
    if (host === null) return undefined;
    const made = new UPlot(
      options(host, series, zone, (value) => formatting.current(value)),
      data.current,
      host,
    );
    plot.current = made;
    const click = (): void => {
      const { idx } = made.cursor;
      if (typeof idx === 'number') go.current(idx);
    };
    made.over.addEventListener('click', click);
    made.over.style.cursor = 'pointer';
    const sizes = new ResizeObserver(() =>
      made.setSize({ width: host.clientWidth, height: host.clientHeight - legendPx }),
    );
    sizes.observe(host);
    return () => {
      sizes.disconnect();
      made.destroy();
      plot.current = undefined;
    };
    // A chart of the same shape gets new data; another look or zone makes another one.
  }, [shape, zone, isDark]);
  useEffect(() => plot.current?.setData(data.current), [times, series]);
  return (
    <div ref={box} className="h-60 w-full [&_.u-legend]:text-xs! [&_.u-legend_th]:font-normal!" aria-hidden />
  );
}

/** Height of the line that names the values under the pointer. */
const legendPx = 26;

function options(
  host: HTMLElement,
  series: readonly Series[],
  zone: Zone,
  format: (value: number) => string,
): UPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string): string => style.getPropertyValue(`--c-${name}`).trim();
  const axis: UPlot.Axis = {
    stroke: colour('soft'),
    grid: { stroke: colour('line'), width: 1 },
    ticks: { show: false },
    font: '11px sans-serif',
  };
  const bars = UPlot.paths.bars?.({ size: [0.7, 40], align: 1 });
  return {
    width: host.clientWidth,
    height: host.clientHeight - legendPx,
    tzDate: (seconds) => {
      const date = new Date(seconds * 1000);
      return zone === 'local' ? date : UPlot.tzDate(date, zone === 'utc' ? 'Etc/UTC' : zone);
    },
    cursor: { y: false, points: { size: 6 } },
    legend: { live: true },
    scales: {
      // The last column stands on the time that it begins at, and has its room to the right.
      x: { range: (self, min, max) => [min, max + stepOf(self.data[0])] },
      y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] },
    },
    axes: [
      { ...axis, size: 34, values: clock },
      { ...axis, size: 66, values: (_, ticks) => ticks.map((tick) => tidy(format(tick))) },
    ],
    series: [
      { label: texts.time, value: '{YYYY}-{MM}-{DD} {HH}:{mm}' },
      ...series.map(({ label, tone, bars: isBars = false }): UPlot.Series => ({
        label,
        stroke: colour(tone),
        width: isBars ? 0 : 1.5,
        points: isBars ? { show: false } : { show: true, size: 4, fill: colour(tone) },
        ...(isBars && { fill: colour(tone), ...(bars !== undefined && { paths: bars }) }),
        value: (_, value: number | null) => (value === null ? '–' : format(value)),
      })),
    ],
  };
}

/** Without the zeros after the point that each number of an axis would end with. */
function tidy(text: string): string {
  return text.replace(/(\.\d*?)0+(?!\d)/, '$1').replace(/\.(?!\d)/, '');
}

/** Seconds from one point to the next. */
function stepOf(times: ArrayLike<number>): number {
  return times.length > 1 ? (times[1] ?? 0) - (times[0] ?? 0) : 60;
}

/** Times of the axis with 24 hours: a date where a day begins. */
const clock: UPlot.Axis['values'] = [
  [86_400, '{MM}-{DD}', null, null, null, null, null, null, 1],
  [60, '{HH}:{mm}', '\n{MM}-{DD}', null, '\n{MM}-{DD}', null, null, null, 1],
  [1, '{HH}:{mm}:{ss}', null, null, null, null, null, null, 1],
];
