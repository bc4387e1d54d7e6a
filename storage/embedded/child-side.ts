import { readdirSync } from 'node:fs';
import os from 'node:os';
import { privateFolders } from './own-folder.ts';

/** Actions of a child process on its parent's messages. */
export interface ChildWork<Options> {
  /** Opens the service and returns its port, 0 for none. An error is reported to the parent, and the process ends. */
  start(message: StartMessage<Options>): Promise<number>;
  /** Ends running work within so many milliseconds and closes everything; then the process ends. */
  stop(graceMs: number): Promise<void>;
}

/** Thrown by `start` when the child cannot start for a reason that its parent needs. */
export class ChildCannotStart extends Error {
  readonly reason: FailedMessage['reason'];

  constructor(reason: FailedMessage['reason'], cause: unknown) {
    super(textOf(cause), { cause });
    this.name = 'ChildCannotStart';
    this.reason = reason;
  }
}

const stopGraceMs = 5000;
const orphanGraceMs = 500;
/** Work that cannot be ended must not block the folder for the next start. The engines survive a hard exit. */
const hardExitMs = 4000;

/**
 * Makes this process the child of a `SupervisedChild`: it starts and stops on the parent's messages, and ends with its
 * parent.
 */
export function runAsChild<Options>(work: ChildWork<Options>): void {
  let stopping = false;

  privateFolders.writePrivately();

  async function start(message: StartMessage<Options>): Promise<void> {
    yieldToServing();
    try {
      await sendToParent({ type: 'ready', port: await work.start(message) });
    } catch (error) {
      const reason = error instanceof ChildCannotStart ? error.reason : 'other';
      await sendToParent({ type: 'failed', reason, message: textOf(error) });
      process.exit(1);
    }
  }

  async function stop(graceMs: number): Promise<void> {
    if (stopping) return;
    stopping = true;
    setTimeout(() => process.exit(1), graceMs + hardExitMs).unref();
    await work.stop(graceMs);
    process.exit(0);
  }

  process.on('message', (message: StartMessage<Options> | StopMessage) => {
    void (message.type === 'start' ? start(message) : stop(stopGraceMs));
  });
  // Without its parent this process is unreachable, and it would hold the data folder.
  process.on('disconnect', () => void stop(orphanGraceMs));
  // A terminal or a service manager signals the whole group. The parent still ships its last rows, so it decides when
  // this process ends.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined);
}

/**
 * Serving has priority: on a machine with few cores the engine's bursts would otherwise delay requests. Best effort. On
 * Linux a priority belongs to a thread and is inherited by the threads that it starts, so it is also set on the running
 * threads of the runtime, which execute statements.
 */
function yieldToServing(): void {
  for (const thread of runningThreads()) {
    try {
      os.setPriority(thread, os.constants.priority.PRIORITY_BELOW_NORMAL);
    } catch {
      // The thread has ended, or the system forbids it; then priorities stay equal.
    }
  }
}

function runningThreads(): number[] {
  try {
    return readdirSync('/proc/self/task').map(Number);
  } catch {
    return [process.pid];
  }
}

function sendToParent(message: ReadyMessage | FailedMessage): Promise<void> {
  return new Promise((resolve) => {
    if (process.send === undefined) return resolve();
    process.send(message, () => resolve());
  });
}

function textOf(error: unknown): string {
  if (error instanceof Error) return error.message;
  // The file system of a WebAssembly module throws objects of its own.
  const isNumbered = typeof error === 'object' && error !== null && 'errno' in error;
  return isNumbered ? `error ${String(error.errno)} of the file system` : String(error);
}

/** Parent → child, once, as the first message. Over the channel and not as arguments: those are visible to others. */
export interface StartMessage<Options> {
  readonly type: 'start';
  /** The port to listen on; 0 for any. A restarted child gets the port of its predecessor. */
  readonly port: number;
  readonly options: Options;
}

/** Parent → child: finish running work, close the data folder, exit. */
export interface StopMessage {
  readonly type: 'stop';
}

/** Child → parent: it answers on this port. */
interface ReadyMessage {
  readonly type: 'ready';
  readonly port: number;
}

/**
 * Child → parent: it cannot start. `absent` means that a package is missing, so that a retry is useless; `busy` that
 * another process uses the data folder.
 */
export interface FailedMessage {
  readonly type: 'failed';
  readonly reason: 'absent' | 'busy' | 'other';
  readonly message: string;
}

/** Reads what a child sent, or undefined for anything else. */
export function readChildMessage(message: unknown): ReadyMessage | FailedMessage | undefined {
  if (typeof message !== 'object' || message === null) return undefined;
  const { type, port, reason, message: text } = message as Readonly<Record<string, unknown>>;
  if (type === 'ready' && typeof port === 'number') return { type, port };
  if (type === 'failed' && typeof text === 'string') {
    const known = reason === 'absent' || reason === 'busy' ? reason : 'other';
    return { type, reason: known, message: text };
  }
  return undefined;
}
