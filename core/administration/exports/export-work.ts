import { GatewayError } from '../../errors/gateway-error.ts';
import type { JobRun } from '../../ports/jobs.ts';
import type { StoredRecord } from '../../ports/records.ts';
import { expireExports } from './expire-exports.ts';
import type { ExportPlace } from './export-place.ts';
import { ExportStopped, type ExportRun } from './export-progress.ts';
import { attempts, runExport } from './run-export.ts';

const runName = 'exports.run';
const expireName = 'exports.expire';
/** Rows are collected for seconds; putting a long file together takes longer. */
const runTimeoutMs = 3_600_000;
const expireTimeoutMs = 600_000;
const expireEveryMs = 600_000;
/** Rows of the last moments may still be on their way to the store. */
const settleMs = 3000;
/** Whoever still writes for a run that was ended has noticed by then. */
const discardAfterMs = 2000;

interface Running {
  readonly controller: AbortController;
  readonly done: Promise<unknown>;
}

/** The jobs of exports. */
export class ExportWork {
  readonly #place: ExportPlace;
  readonly #running = new Map<string, Running>();

  /** Defines `exports.run` and `exports.expire`; before the jobs are started. */
  constructor(place: ExportPlace) {
    this.#place = place;
    const { jobs } = place;
    jobs.define<ExportRun>({
      ...{ name: runName, attempts, timeoutMs: runTimeoutMs },
      handle: (job) => this.#handle(job),
    });
    jobs.define({
      ...{ name: expireName, timeoutMs: expireTimeoutMs },
      handle: ({ signal }) => expireExports(place, signal, (record) => this.#resume(record)),
    });
    jobs.repeat({ name: expireName, everyMs: expireEveryMs });
  }

  /** Puts a run into the queue. */
  async enqueue(record: StoredRecord<'log_export'>): Promise<void> {
    const delayMs = Math.max(0, settleMs - (this.#place.clock.now() - record.data.to));
    await this.#add(record, 'start', delayMs);
  }

  /** Ends what this process does for an export, and has what is left of it removed. */
  async discard(record: StoredRecord<'log_export'>): Promise<void> {
    this.#running.get(record.id)?.controller.abort(new ExportStopped());
    await this.#add(record, 'discard', discardAfterMs);
  }

  /** A run whose job was lost goes on; one that is under way notices nothing. */
  async #resume(record: StoredRecord<'log_export'>): Promise<void> {
    if (this.#running.has(record.id)) return;
    await this.#add(record, `resume-${record.version}`, 0);
  }

  #add(
    { organisationId, id, data: { run } }: StoredRecord<'log_export'>,
    step: string,
    delayMs: number,
  ): Promise<void> {
    const data: ExportRun = { organisationId, exportId: id, run };
    return this.#place.jobs.add(runName, `${runName}:${id}:${run}:${step}`, data, { delayMs });
  }

  async #handle({ data, signal, attempt }: JobRun<ExportRun>): Promise<void> {
    // An attempt that took too long may still be at its last page.
    await this.#running.get(data.exportId)?.done.catch(() => undefined);
    const controller = new AbortController();
    const both = AbortSignal.any([signal, controller.signal]);
    const work = runExport(this.#place, data, { signal: both, attempt });
    this.#running.set(data.exportId, { controller, done: work });
    try {
      const slice = await work;
      if (slice.isOver) return;
      const { exportId, run } = data;
      await this.#place.jobs.add(runName, `${runName}:${exportId}:${run}:${slice.slices}`, data);
    } catch (error) {
      // The store of what is administered has been told before: what is left is removed by a job of its own.
      if (error instanceof ExportStopped || controller.signal.aborted) return;
      if (GatewayError.is(error) && error.code === 'shutting_down') signal.throwIfAborted();
      throw error;
    } finally {
      this.#running.delete(data.exportId);
    }
  }
}
