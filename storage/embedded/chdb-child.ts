import type { Server } from 'node:http';
import os from 'node:os';
import type { AddressInfo } from 'node:net';
import { Engine, type ChdbModule, type EngineOptions } from './chdb/engine.ts';
import { createEngineServer } from './chdb/http-server.ts';
import type { FailedMessage, ReadyMessage, StartMessage, StopMessage } from './child-messages.ts';

/** What the parent says at start. */
export interface ChdbChildOptions extends EngineOptions {
  readonly username: string;
  readonly password: string;
  /** Folders whose files inserts may name. */
  readonly rowFolders: readonly string[];
}

const stopGraceMs = 5000;
const orphanGraceMs = 500;
/** A statement that cannot be ended must not keep the folder from the next start. The engine survives a hard exit. */
const hardExitMs = 4000;

let engine: Engine | undefined;
let server: Server | undefined;
let stopping = false;

function tell(message: ReadyMessage | FailedMessage): Promise<void> {
  return new Promise((resolve) => {
    if (process.send === undefined) return resolve();
    process.send(message, () => resolve());
  });
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function listen(target: Server, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    target.once('error', reject);
    target.listen(port, '127.0.0.1', () => {
      target.off('error', reject);
      resolve((target.address() as AddressInfo).port);
    });
  });
}

/** Serving comes first: on a machine with few cores the engine's bursts would else delay requests. Best effort. */
function yieldToServing(): void {
  try {
    os.setPriority(os.constants.priority.PRIORITY_BELOW_NORMAL);
  } catch {
    // Some systems forbid it; then both share the machine as they are.
  }
}

async function start({ port, options }: StartMessage<ChdbChildOptions>): Promise<void> {
  yieldToServing();
  let chdb: ChdbModule;
  try {
    chdb = await import('chdb');
  } catch (error) {
    await tell({ type: 'failed', reason: 'absent', message: textOf(error) });
    process.exit(1);
  }
  try {
    engine = await Engine.open(chdb, options);
    server = createEngineServer({ engine, ...options });
    await tell({ type: 'ready', port: await listen(server, port) });
  } catch (error) {
    await tell({ type: 'failed', reason: 'other', message: textOf(error) });
    process.exit(1);
  }
}

async function stop(graceMs: number): Promise<void> {
  if (stopping) return;
  stopping = true;
  setTimeout(() => process.exit(1), graceMs + hardExitMs).unref();
  server?.close();
  await engine?.close(graceMs);
  server?.closeAllConnections();
  process.exit(0);
}

process.on('message', (message: StartMessage<ChdbChildOptions> | StopMessage) => {
  void (message.type === 'start' ? start(message) : stop(stopGraceMs));
});
// Without its parent nobody can reach this process any more, and it would hold the data folder.
process.on('disconnect', () => void stop(orphanGraceMs));
// A terminal or a service manager signals the whole group. The parent still ships its last rows, so it decides
// when this process ends.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined);
