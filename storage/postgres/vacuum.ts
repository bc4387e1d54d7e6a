import { sql } from 'drizzle-orm';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import type { Database } from './database.ts';

/** Options of `startVacuum`. */
interface VacuumParts {
  /** The embedded engine: a server vacuums by itself. */
  readonly database: Pick<Database, 'query' | 'isBusy'>;
  readonly log: Log;
  readonly clock: Clock;
}

/** The start is over by then. */
const firstLookMs = 60_000;
const lookEveryMs = 3_600_000;
/** Between two tables: other users of the single session go first. */
const pauseMs = 250;
/** Longest wait for an idle moment per table; after that the table is vacuumed anyway. */
const quietPatienceMs = 60_000;

/**
 * Vacuums and analyses each table of the embedded engine whose last run is more than a day ago, or unknown (after a
 * crash): the engine does not do so by itself, and changing tables would grow without limit. Checks a minute after the
 * start and once an hour, works table by table while the session is idle, and logs failures as warnings. Returns a
 * function that stops it: resolves when none of its statements runs any more.
 */
export function startVacuum(parts: VacuumParts): () => Promise<void> {
  const vacuum = new Vacuum(parts);
  vacuum.schedule(firstLookMs);
  return () => vacuum.stop();
}

class Vacuum {
  readonly #parts: VacuumParts;
  #running: Promise<void> = Promise.resolve();
  #isStopped = false;
  #cancel: () => void = () => undefined;

  constructor(parts: VacuumParts) {
    this.#parts = parts;
  }

  schedule(ms: number): void {
    if (this.#isStopped) return;
    this.#cancel = this.#parts.clock.after(ms, () => {
      this.#running = this.#look().then(() => this.schedule(lookEveryMs));
    });
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancel();
    await this.#running;
  }

  async #look(): Promise<void> {
    const { log } = this.#parts;
    try {
      for (const table of await this.#dueTables()) {
        await this.#quietMoment();
        if (this.#isStopped) return;
        await this.#vacuum(table);
      }
    } catch (error) {
      log.warn(
        'Which tables of the embedded resources store are to be vacuumed is not known; it is asked again in an hour',
        {
          error,
        },
      );
    }
  }

  /** By the engine's own clock and statistics, which a clean stop keeps. */
  async #dueTables(): Promise<readonly string[]> {
    const { rows } = await this.#parts.database.query((statements) =>
      statements.execute<{ name: string }>(
        sql`SELECT relname AS name FROM pg_stat_user_tables
            WHERE schemaname = 'public' AND (last_vacuum IS NULL OR last_vacuum < now() - interval '1 day')
            ORDER BY relname`,
      ),
    );
    return rows.map(({ name }) => name);
  }

  /** A failure does not prevent the others. */
  async #vacuum(table: string): Promise<void> {
    const { database, log, clock } = this.#parts;
    const since = clock.monotonic();
    try {
      await database.query((statements) =>
        statements.execute(sql`VACUUM (ANALYZE) public.${sql.identifier(table)}`),
      );
      const ms = Math.round(clock.monotonic() - since);
      log.debug('A table of the embedded resources store was vacuumed', { table, ms });
    } catch (error) {
      log.warn(
        'A table of the embedded resources store could not be vacuumed; it is tried again in an hour',
        { table, error },
      );
    }
  }

  async #quietMoment(): Promise<void> {
    const { database, clock } = this.#parts;
    const deadline = clock.monotonic() + quietPatienceMs;
    while (!this.#isStopped) {
      await this.#pause();
      if (!database.isBusy || clock.monotonic() >= deadline) return;
    }
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#parts.clock.after(pauseMs, resolve);
      // A stop meanwhile ends it at once.
      this.#cancel = () => {
        cancel();
        resolve();
      };
    });
  }
}
