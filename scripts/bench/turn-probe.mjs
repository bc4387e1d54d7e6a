// Loaded into a process under measurement with `--import`: reports over the IPC channel the longest time without a turn
// of its event loop since the last report, the thread's processor time in it (on a shared machine, it also waits for a
// processor), and its peak memory.
import { closeSync, openSync, readSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';

const resolutionMs = 1;

// Processes that this one starts are not measured.
const probe = process.execArgv.findIndex((argument) => argument.endsWith('/turn-probe.mjs'));
if (probe > 0) process.execArgv.splice(probe - 1, 2);

const delay = monitorEventLoopDelay({ resolution: resolutionMs });
delay.enable();
let peak = 0;
setInterval(() => (peak = Math.max(peak, process.memoryUsage.rss())), 20).unref();

/** Milliseconds of processor time of the main thread; 0 where the kernel does not report it. */
const told = Buffer.alloc(64);
function workedMs() {
  try {
    const file = openSync(`/proc/self/task/${process.pid}/schedstat`, 'r');
    const length = readSync(file, told, 0, told.length, 0);
    closeSync(file);
    return Number.parseInt(told.toString('latin1', 0, length), 10) / 1e6;
  } catch {
    return 0;
  }
}
let longestWork = 0;
let worked = workedMs();
setInterval(() => {
  const now = workedMs();
  longestWork = Math.max(longestWork, now - worked);
  worked = now;
}, resolutionMs).unref();

process.on('message', (question) => {
  if (question.ask !== 'turns') return;
  process.send?.({ longestMs: delay.max / 1e6, workedMs: longestWork, peakBytes: peak });
  delay.reset();
  peak = longestWork = 0;
});
process.channel?.unref();
