import { setTimeout as pause } from 'node:timers/promises';
import type { ChildProcess } from 'node:child_process';
import { openFilesLimit } from './open-files.ts';
import { IdleStreams } from './idle-streams.ts';
import { load } from '../../main/bench-command/load.ts';
import type { MemoryQuestion, MemoryReading } from './memory-probe.mjs';
import { removeFolder, startBare, startUpstream, startWeir, type Subject } from './subject.ts';
import { idleRequestBytes, requestBytes } from './workload.ts';

/** Memory of one idle stream in one subject, in bytes. */
interface StreamMemory {
  /** Resident memory of the process, its allocators' reserves included, the young generation left out. */
  readonly resident: number;
  /** Living objects and buffers. */
  readonly heap_and_external: number;
}

/** Memory of open streams over which nothing flows. */
interface IdleStreamFigures {
  readonly streams: number;
  /** Set when fewer were opened than wanted, and says why. */
  readonly fewer_because: string | undefined;
  readonly bare: StreamMemory;
  readonly weir: StreamMemory;
  /** Gateway / bare. */
  readonly ratios: StreamMemory;
  /** Idle streams that ended while they were to be held; 0 where all is well. */
  readonly ended: number;
}

const wantedStreams = 5000;
const quickStreams = 1000;
/** Requests before the first stream: code is compiled then, and pools have their first size. */
const warmRequests = 8000;
const warmConnections = 32;
/** Share of the streams that is open at the first measurement: they fill heap space that earlier load has left free. */
const openBefore = 0.2;
/** Files that a process has open beside its streams. */
const otherFiles = 300;
/** Timers of the first seconds of a stream have run by then. */
const settleMs = 3000;

/** Bytes per idle stream of the gateway and of the bare proxy, one after the other so that neither disturbs the other. */
export async function measureIdleStreams(quick: boolean): Promise<IdleStreamFigures> {
  const wanted = quick ? quickStreams : wantedStreams;
  // A proxy holds two sockets for each stream; every other process holds one.
  const files = openFilesLimit();
  const possible = Math.floor((files - otherFiles) / 2);
  const streams = Math.min(wanted, possible);
  const upstream = await startUpstream();
  try {
    const probe = { memoryProbe: true };
    const bare = await measure(await startBare(upstream.port, probe), streams);
    const subject = await startWeir({ upstreamPort: upstream.port, ...probe });
    const weir = await measure(subject, streams).finally(() => removeFolder(subject.folder));
    return {
      streams,
      fewer_because:
        streams < wanted
          ? `a process may open ${files} files here (ulimit -n); ${wanted} streams need ${2 * wanted + otherFiles}`
          : undefined,
      bare: bare.memory,
      weir: weir.memory,
      ratios: {
        resident: weir.memory.resident / bare.memory.resident,
        heap_and_external: weir.memory.heap_and_external / bare.memory.heap_and_external,
      },
      ended: bare.ended + weir.ended,
    };
  } finally {
    await upstream.stop();
  }
}

/** Stops the subject when it is done, however it went. */
async function measure(subject: Subject, count: number): Promise<{ memory: StreamMemory; ended: number }> {
  const streams = new IdleStreams(subject.port, idleRequestBytes(subject.port));
  try {
    await load(subject.port, requestBytes(subject.port, false), warmRequests, warmConnections);
    const first = Math.round(count * openBefore);
    await streams.open(first);
    await pause(settleMs);
    const before = await read(subject.child, 'before');
    const more = count - first;
    await streams.open(more);
    await pause(settleMs);
    const after = await read(subject.child, 'after');
    return {
      memory: {
        resident: (after.resident - before.resident) / more,
        heap_and_external: (after.heapUsed + after.external - before.heapUsed - before.external) / more,
      },
      ended: streams.ended,
    };
  } finally {
    await streams.close();
    await subject.stop();
  }

  async function read(child: ChildProcess, moment: string): Promise<MemoryReading> {
    // For a look inside: WEIR_BENCH_SNAPSHOTS=FOLDER keeps a heap snapshot of each moment there.
    const folder = process.env['WEIR_BENCH_SNAPSHOTS'];
    const snapshot = folder === undefined ? undefined : `${folder}/${subject.name}-${moment}.heapsnapshot`;
    return readMemory(child, snapshot);
  }
}

/** Asks a process that was started with `memoryProbe`; with `snapshot`, it also writes a heap snapshot there. */
export function readMemory(child: ChildProcess, snapshot?: string): Promise<MemoryReading> {
  return new Promise((resolve, reject) => {
    const gone = (): void => reject(new Error('A process of the bench ended under the measurement.'));
    child.once('exit', gone);
    child.once('message', (reading: MemoryReading) => {
      child.removeListener('exit', gone);
      resolve(reading);
    });
    const question: MemoryQuestion = snapshot === undefined ? { ask: 'memory' } : { ask: 'memory', snapshot };
    child.send(question);
  });
}
