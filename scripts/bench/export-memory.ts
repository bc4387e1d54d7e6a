// Memory and event loop of one export of many rows, as a gateway runs it: pages of rows with bodies of 2 KB, parts on
// the disk, the file. Usage: node --expose-gc --import tsx scripts/bench/export-memory.ts [jsonl|csv|parquet] [rows]
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { createLogExports } from '../../core/administration/exports/log-exports.ts';
import { exportFields, exportFormats } from '../../core/ports/request-row.ts';
import { systemClock } from '../../core/ports/clock.ts';
import { createFileBlobs } from '../../storage/blobs/file-blobs.ts';
import { exportPlace, exportRecord, ExportRecords, ManyLogs } from '../../tests/kit/export-kit.ts';

const format = exportFormats.find((name) => name === process.argv[2]) ?? 'jsonl';
const rows = Number(process.argv[3] ?? 1_000_000);
const mebibyte = 1024 * 1024;
const directory = await mkdtemp(path.join(tmpdir(), 'weir-export-bench-'));
const records = new ExportRecords(exportRecord({ format, requestedData: exportFields }));
const logs = new ManyLogs(rows, 2000);
const place = exportPlace({
  analytics: logs,
  resources: records.resources,
  blobs: createFileBlobs(directory),
  clock: systemClock,
});
const exports = createLogExports(place);
const samples: { rss: number; heap: number }[] = [];
const sample = (): void => {
  const { rss, heapUsed } = process.memoryUsage();
  samples.push({ rss: rss / mebibyte, heap: heapUsed / mebibyte });
};
sample();
const timer = setInterval(sample, 250);
const delay = monitorEventLoopDelay({ resolution: 5 });
delay.enable();
const begin = performance.now();
await exports.enqueue(exportRecord({ format }));
const slices = await place.jobs.drain();
const seconds = (performance.now() - begin) / 1000;
clearInterval(timer);
delay.disable();
sample();
const quarter = Math.max(1, Math.floor(samples.length / 4));
const most = (some: typeof samples, of: 'rss' | 'heap'): number =>
  Math.round(Math.max(...some.map((one) => one[of])));
const { state, bytes, rows: written } = records.data();
const file = path.join(directory, 'org-1', 'export-1', '1', `logs-export-1.${format}`);
console.log(
  JSON.stringify({
    format,
    state,
    rows: written,
    slices,
    seconds: Math.round(seconds * 10) / 10,
    bytes,
    onDisk: (await stat(file)).size,
    rssMiB: {
      start: most(samples.slice(0, 1), 'rss'),
      firstQuarter: most(samples.slice(0, quarter), 'rss'),
      lastQuarter: most(samples.slice(-quarter), 'rss'),
      most: most(samples, 'rss'),
    },
    heapMiB: {
      firstQuarter: most(samples.slice(0, quarter), 'heap'),
      lastQuarter: most(samples.slice(-quarter), 'heap'),
    },
    eventLoopMs: { p50: delay.percentile(50) / 1e6, p99: delay.percentile(99) / 1e6, max: delay.max / 1e6 },
  }),
);
await rm(directory, { recursive: true });
