import type { Session } from 'chdb';
import { engineCodeOf } from './engine-error.ts';
import type { EngineRequest } from './http-request.ts';
import { sqlName, sqlString } from './sql-literal.ts';

/** What a statement gave back. */
export interface EngineReply {
  readonly bytes: Buffer;
  readonly readRows: number;
  readonly readBytes: number;
  readonly writtenRows: number;
  readonly writtenBytes: number;
}

/**
 * One connection to the engine, used by one request at a time. Settings and parameters are `SET` before the
 * statement and taken back after it, so they reach every kind of statement and leak into no other; parameter
 * values are bound by the engine itself and never become part of the statement's text.
 */
export class EngineSession {
  readonly #session: Session;
  readonly #baseline: ReadonlyMap<string, string>;
  #database = 'default';
  /** Assignments that take back what the last request set. */
  #leftover: readonly string[] = [];

  constructor(session: Session, baseline: ReadonlyMap<string, string>) {
    this.#session = session;
    this.#baseline = baseline;
  }

  /** Gives the session the settings that hold where a request says nothing else. */
  async prepare(): Promise<void> {
    const assignments = [...this.#baseline].map(([name, value]) => `${name}=${sqlString(value)}`);
    if (assignments.length > 0) await this.command(`SET ${assignments.join(', ')}`);
  }

  /** Runs one request. `mark` finds the statement again (`log_comment`) when it has to be killed. */
  async run(request: EngineRequest, mark: string, signal: AbortSignal): Promise<EngineReply> {
    await this.#restore();
    await this.#useDatabase(request.database);
    this.#leftover = this.#restoring(request);
    try {
      await this.command(`SET ${assignments(request, mark).join(', ')}`);
      signal.throwIfAborted();
      return await this.#execute(request);
    } finally {
      // A failure here must not hide how the statement ended; the next request tries again before it begins.
      await this.#restore().catch(() => undefined);
    }
  }

  /** A statement of our own, without a result. */
  async command(sql: string): Promise<void> {
    await this.#session.queryAsync(sql, { format: 'Null' });
  }

  close(): void {
    this.#session.close();
  }

  async #execute(request: EngineRequest): Promise<EngineReply> {
    const { statement, data } = request;
    if (statement.insert === undefined) {
      const result = await this.#session.queryAsync(statement.sql, { format: request.format });
      const bytes = result.bytes();
      return {
        bytes: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength),
        readRows: result.rowsRead,
        readBytes: result.bytesRead,
        writtenRows: 0,
        writtenBytes: 0,
      };
    }
    const { table, columns, format } = statement.insert;
    const summary = await this.#session.insert({
      table,
      values: data,
      format: format as 'JSONEachRow', // the engine's own list of formats decides
      ...(columns === undefined ? {} : { columns }),
    });
    const { rowsWritten, bytesWritten } = summary;
    return {
      bytes: Buffer.alloc(0),
      readRows: 0,
      readBytes: 0,
      writtenRows: rowsWritten,
      writtenBytes: bytesWritten,
    };
  }

  async #useDatabase(database: string): Promise<void> {
    if (this.#database === database) return;
    await this.command(`USE ${sqlName(database)}`);
    this.#database = database;
  }

  #restoring(request: EngineRequest): string[] {
    const settings = [...request.settings.keys()].map((name) => {
      const value = this.#baseline.get(name);
      return `${name}=${value === undefined ? 'DEFAULT' : sqlString(value)}`;
    });
    // A parameter cannot be unset. It is emptied, and statements that name one they do not bring are refused earlier.
    const parameters = [...request.parameters.keys()].map((name) => `param_${name}=''`);
    // Never empty: the engine lists a statement as running until its session gets another one.
    return ["log_comment=''", ...settings, ...parameters];
  }

  async #restore(): Promise<void> {
    if (this.#leftover.length === 0) return;
    try {
      await this.command(`SET ${this.#leftover.join(', ')}`);
    } catch {
      for (const assignment of this.#leftover) await this.#restoreOne(assignment);
    }
    this.#leftover = [];
  }

  /** A name that is no setting was never set, so there is nothing to take back. */
  async #restoreOne(assignment: string): Promise<void> {
    try {
      await this.command(`SET ${assignment}`);
    } catch (error) {
      if (engineCodeOf(error) !== 115) throw error;
    }
  }
}

function assignments(request: EngineRequest, mark: string): string[] {
  return [
    `log_comment=${sqlString(mark)}`,
    ...[...request.settings].map(([name, value]) => `${name}=${sqlString(value)}`),
    ...[...request.parameters].map(([name, value]) => `param_${name}=${sqlString(value)}`),
  ];
}
