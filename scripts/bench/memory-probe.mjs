// Loaded into a process under measurement with `--import`, beside `--expose-gc`: reports its memory over the IPC channel
// when it is asked, after it has collected its garbage. Adds nothing that affects a request.
import { getHeapSpaceStatistics, writeHeapSnapshot } from 'node:v8';
import { setTimeout as pause } from 'node:timers/promises';

/** Garbage frees buffers, whose finalizers free further objects: one collection is not enough. */
const collections = 4;
const betweenMs = 150;

// Processes that this one starts are not measured, and have a use of their own for their channel.
const probe = process.execArgv.findIndex((argument) => argument.endsWith('/memory-probe.mjs'));
if (probe > 0) process.execArgv.splice(probe - 1, 2);

process.on('message', (question) => {
  if (question.ask === 'memory') void tell(question.snapshot);
});
// The process ends as it would without the probe.
process.channel?.unref();

async function tell(snapshot) {
  for (let round = 0; round < collections; round++) {
    globalThis.gc?.();
    await pause(betweenMs);
  }
  const { rss, heapUsed, external } = process.memoryUsage();
  const young = getHeapSpaceStatistics().find(({ space_name: name }) => name === 'new_space');
  const resident = rss - (young?.physical_space_size ?? 0);
  if (snapshot !== undefined) writeHeapSnapshot(snapshot);
  process.send?.({ resident, heapUsed, external });
}
