import { type BenchResult, type GatewayResult, short } from './report.ts';

/** One bar: its length, and that of a part after it. */
interface Bar {
  readonly title: string;
  readonly value: number;
  readonly more: number;
}

interface Panel {
  readonly title: string;
  readonly bars: readonly Bar[];
}

const width = 720;
const left = 190;
const right = 110;
const barHeight = 16;
const barGap = 8;
const panelGap = 34;
const top = 44;

/** `bench.svg`: bars of each figure. Colours follow the reader's scheme, light or dark. */
export function chart(result: BenchResult): string {
  const panels = panelsOf(result);
  let y = top;
  const parts: string[] = [];
  for (const { title, bars } of panels) {
    parts.push(text(0, y, title, 'head'));
    y += 12;
    const longest = Math.max(...bars.map(({ value, more }) => value + more), Number.MIN_VALUE);
    const scale = (width - left - right) / longest;
    bars.forEach((bar, index) => {
      const middle = y + barHeight - 4;
      const own = bar.value * scale;
      parts.push(
        text(left - 10, middle, bar.title, 'name'),
        `<rect class="bar${index === 0 ? ' bare' : ''}" x="${left}" y="${y}" width="${size(own)}" height="${barHeight}"/>`,
      );
      if (bar.more > 0)
        parts.push(
          `<rect class="more" x="${size(left + own)}" y="${y}" width="${size(bar.more * scale)}" height="${barHeight}"/>`,
        );
      const shown = bar.more > 0 ? `${short(bar.value)} + ${short(bar.more)}` : short(bar.value);
      parts.push(text(left + own + bar.more * scale + 8, middle, shown, 'value'));
      y += barHeight + barGap;
    });
    y += panelGap - barGap;
  }
  const { machine } = result;
  const place = `${machine.cores} × ${machine.cpu}, ${result.runtime}, ${result.date.slice(0, 10)}`;
  const label = 'Cost of gateways beside a bare proxy';
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${y}" width="${width}" height="${y}" role="img" aria-label="${label}">
<style>
text { font: 12px system-ui, sans-serif; fill: #1f2328; }
.head { font-weight: 600; }
.name { text-anchor: end; }
.place { fill: #59636e; }
.bar { fill: #2f6fdb; }
.bare { fill: #8b949e; }
.more { fill: #2f6fdb; opacity: 0.4; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .place { fill: #9198a1; }
  .bar { fill: #4c8dff; }
  .bare { fill: #7d8590; }
  .more { fill: #4c8dff; opacity: 0.45; }
}
</style>
${text(0, 16, place, 'place')}
${parts.join('\n')}
</svg>
`;
}

function panelsOf({ gateways, settings }: BenchResult): readonly Panel[] {
  const panel = (
    title: string,
    of: (one: GatewayResult) => { readonly value: number; readonly more?: number | undefined } | undefined,
  ): Panel => ({
    title,
    bars: gateways.flatMap((one) => {
      const bar = of(one);
      return bar === undefined ? [] : [{ title: one.title, value: bar.value, more: bar.more ?? 0 }];
    }),
  });
  return [
    panel(
      `CPU µs per request at ${settings.requests_per_second} requests/s, and of embedded stores (less is better)`,
      ({ at_rate: { cpu_us: value, stores_cpu_us: more } }) => ({ value, more }),
    ),
    panel('99th percentile of the latency at that rate, ms (less is better)', ({ at_rate }) => ({
      value: at_rate.p99_ms,
    })),
    panel('Requests per second at most (more is better)', ({ saturated }) => ({
      value: saturated.requests_per_second,
    })),
    panel(
      'CPU µs per streamed chunk, and of embedded stores (less is better)',
      ({ streams }) => streams && { value: streams.cpu_us, more: streams.stores_cpu_us },
    ),
  ].filter(({ bars }) => bars.length > 0);
}

function text(x: number, y: number, content: string, kind: string): string {
  const escaped = content.replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);
  return `<text class="${kind}" x="${size(x)}" y="${size(y)}">${escaped}</text>`;
}

function size(value: number): string {
  return value.toFixed(1).replace(/\.0$/, '');
}
