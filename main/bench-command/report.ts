import type { Measures } from './measure.ts';

/** Writes the results of a bench. */
export const benchReport = { gatewayResult, terminalTable, contextLines, markdown, chart };

/** The results of a run: `bench.json`. Its members are described in docs/performance.md. */
export interface BenchResult {
  readonly version: 1;
  readonly date: string;
  readonly command: string;
  readonly machine: {
    readonly cpu: string;
    readonly cores: number;
    readonly memory_gib: number;
    readonly platform: string;
    /** Before the run: above 0 when others use the machine. */
    readonly load_average: number;
  };
  readonly runtime: string;
  readonly weir: string;
  readonly settings: {
    readonly requests_per_second: number;
    readonly connections: number;
    readonly rounds: number;
    readonly seconds_per_round: number;
  };
  /** The bare proxy first. */
  readonly gateways: readonly GatewayResult[];
  readonly not_measured: readonly { readonly title: string; readonly reason: string }[];
  readonly notes: readonly string[];
}

interface CpuResult {
  readonly cpu_us: number;
  /** CPU of embedded stores in addition; absent without such. */
  readonly stores_cpu_us?: number;
  /** `cpu_us` over that of the bare proxy. */
  readonly of_bare: number;
  /** Lowest and highest `cpu_us` of a round. */
  readonly spread: readonly [number, number];
}

interface GatewayResult {
  readonly name: string;
  readonly title: string;
  readonly version?: string;
  /** Per request, at one rate for all. */
  readonly at_rate: CpuResult & {
    readonly requests_per_second: number;
    readonly p50_ms: number;
    readonly p99_ms: number;
  };
  /** Per request, with all connections busy. */
  readonly saturated: CpuResult & { readonly requests_per_second: number };
  /** Per chunk of a streamed answer. */
  readonly streams?: CpuResult & { readonly chunks_per_second: number };
  readonly memory_mib: number;
  readonly stores_memory_mib?: number;
}

/** The figures of one gateway. `bare`: the measures of the bare proxy. */
function gatewayResult(
  named: Pick<GatewayResult, 'name' | 'title' | 'version'>,
  measures: Measures,
  bare: Measures,
): GatewayResult {
  const { paced, saturated, streamed, usage } = measures;
  const hasStores = usage.storesResidentBytes > 0;
  const cpu = (of: Measures['paced'], ofBare: Measures['paced']): CpuResult => ({
    cpu_us: round(of.cpuUs / of.completed),
    ...(hasStores && { stores_cpu_us: round(of.storesCpuUs / of.completed) }),
    of_bare: round(of.cpuUs / of.completed / (ofBare.cpuUs / ofBare.completed)),
    spread: [round(Math.min(...of.rounds)), round(Math.max(...of.rounds))],
  });
  return {
    ...named,
    at_rate: {
      ...cpu(paced, bare.paced),
      requests_per_second: round(paced.completed / paced.seconds),
      p50_ms: round(paced.p50Ms),
      p99_ms: round(paced.p99Ms),
    },
    saturated: {
      ...cpu(saturated, bare.saturated),
      requests_per_second: round(saturated.completed / saturated.seconds),
    },
    ...(streamed !== undefined &&
      bare.streamed !== undefined && {
        streams: {
          ...cpu(streamed, bare.streamed),
          chunks_per_second: round(streamed.completed / streamed.seconds),
        },
      }),
    memory_mib: round(usage.residentBytes / 2 ** 20),
    ...(hasStores && { stores_memory_mib: round(usage.storesResidentBytes / 2 ** 20) }),
  };
}

function round(value: number): number {
  return Number(value.toPrecision(4));
}

/** A rate is reached when it is missed by less than that share. */
const reached = 0.95;

/** Heads and cells, the same for the terminal and Markdown. */
function cellsOf(result: BenchResult): { readonly heads: readonly string[]; readonly rows: string[][] } {
  const { gateways, settings } = result;
  const withStreams = gateways.some(({ streams }) => streams !== undefined);
  const heads = [
    '',
    `CPU µs/request at ${settings.requests_per_second}/s`,
    'p50 ms',
    'p99 ms',
    'requests/s at most',
    'CPU µs/request then',
    ...(withStreams ? ['CPU µs/chunk'] : []),
    'memory MiB',
  ];
  const rows = gateways.flatMap((one) => {
    const { at_rate: paced, saturated, streams } = one;
    const isPaced = paced.requests_per_second >= reached * settings.requests_per_second;
    const measured = (cell: CpuResult | undefined): string =>
      cell === undefined ? '' : `${figure(cell.cpu_us)} (${cell.of_bare.toFixed(2)} ×)`;
    const row = [
      one.version === undefined ? one.title : `${one.title} ${one.version}`,
      isPaced ? measured(paced) : `${measured(paced)} at ${figure(paced.requests_per_second)}/s`,
      figure(paced.p50_ms),
      figure(paced.p99_ms),
      figure(saturated.requests_per_second),
      measured(saturated),
      ...(withStreams ? [measured(streams)] : []),
      figure(one.memory_mib),
    ];
    if (one.stores_memory_mib === undefined) return [row];
    const added = (cell: CpuResult | undefined): string =>
      cell === undefined ? '' : figure(cell.cpu_us + (cell.stores_cpu_us ?? 0));
    return [
      row,
      [
        '  with its embedded stores',
        added(paced),
        '',
        '',
        '',
        added(saturated),
        ...(withStreams ? [added(streams)] : []),
        figure(one.memory_mib + one.stores_memory_mib),
      ],
    ];
  });
  return { heads, rows };
}

/** A figure with three digits or more. */
function short(value: number): string {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

function figure(value: number): string {
  return short(value).replace(/\B(?=(\d{3})+(?!\d))(?<!\.\d*)/g, ',');
}

/** The table for a terminal. */
function terminalTable(result: BenchResult): string {
  const { heads, rows } = cellsOf(result);
  const widths = heads.map((head, column) =>
    Math.max(...head.split(' ').map((word) => word.length), ...rows.map((row) => row[column]?.length ?? 0)),
  );
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, column) =>
        column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0),
      )
      .join('  ')
      .trimEnd();
  const wrapped = heads.map((head, column) => wrap(head, widths[column] ?? 0));
  const height = Math.max(...wrapped.map(({ length }) => length));
  const headLines = Array.from({ length: height }, (_, index) =>
    line(wrapped.map((lines) => lines[index - (height - lines.length)] ?? '')),
  );
  return [...headLines, ...rows.map(line)].join('\n');
}

function wrap(text: string, width: number): readonly string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= width) lines.splice(-1, 1, `${last} ${word}`);
    else lines.push(word);
  }
  return lines;
}

/** Where and how the figures were made, and what they leave out. */
function contextLines(result: BenchResult): readonly string[] {
  const { machine, settings, runtime, date, weir } = result;
  return [
    `Machine: ${machine.cores} × ${machine.cpu}, ${machine.memory_gib} GiB, ${machine.platform}, load ${machine.load_average} before the run; ${runtime}, Weir ${weir}; ${date.slice(0, 10)}.`,
    `Load: ${settings.connections} connections, ${settings.rounds} rounds of ${settings.seconds_per_round} s for each figure, in turns. × is over the bare proxy.`,
    ...result.not_measured.map(({ title, reason }) => `${title}: ${reason}.`),
    ...result.notes.map((note) => `Note: ${note}.`),
  ];
}

/** `bench.md`: table, chart, command, machine and date. */
function markdown(result: BenchResult): string {
  const { heads, rows } = cellsOf(result);
  const line = (cells: readonly string[]): string => `| ${cells.map((cell) => cell.trim()).join(' | ')} |`;
  return `${[
    line(heads),
    line(heads.map((_, column) => (column === 0 ? '---' : '---:'))),
    ...rows.map(line),
    '',
    '![Bars of the same figures](bench.svg)',
    '',
    `Made by \`${result.command}\`.`,
    '',
    ...contextLines(result).map((text) => `- ${text}`),
  ].join('\n')}\n`;
}

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
function chart(result: BenchResult): string {
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
