import type { NodePgQueryResultHKT } from 'drizzle-orm/node-postgres';
import type { PgDatabase } from 'drizzle-orm/pg-core';

/** Where statements are built and run: one connection of the database, inside or outside of a transaction. */
export type Statements = Pick<
  PgDatabase<NodePgQueryResultHKT, Record<string, never>>,
  | 'select'
  | 'selectDistinct'
  | 'selectDistinctOn'
  | 'insert'
  | 'update'
  | 'delete'
  | 'execute'
  | 'with'
  | '$with'
  | '$count'
>;

/** How a transaction runs. */
export interface TransactionOptions {
  /** One consistent view of everything, and no writes. Default false: read committed, for writing. */
  readonly readOnly?: boolean;
  /** Told to whoever listens there, in every process, once the transaction is committed. */
  readonly notify?: string;
}

/**
 * The relational store: a PostgreSQL server, or the embedded engine, which has one connection for everybody. What
 * fails rejects with a `GatewayError` that quotes no values: `already_exists` when a unique index refuses a row
 * (`violatedConstraint` names the index), `store_unavailable` when the database is away or too slow, `internal` when
 * it refuses a statement. Errors that `work` throws itself come through as they are.
 */
export interface Database {
  readonly embedded: boolean;
  /** True while a connection is in use, or somebody waits for one. */
  readonly isBusy: boolean;
  /** Runs `work` on one connection, each statement for itself. It is cut off after 30 seconds. */
  query<T>(work: (statements: Statements) => Promise<T>): Promise<T>;
  /**
   * Runs `work` in one transaction: committed when it resolves, rolled back when it rejects. It is cut off after 30
   * seconds. Never open another one inside: the embedded engine would wait for itself. No network calls inside.
   */
  transaction<T>(work: (statements: Statements) => Promise<T>, options?: TransactionOptions): Promise<T>;
  /**
   * Calls `look` after a committed transaction that notified the channel, here or in another process, and after every
   * loss of the connection. Notifications may be lost: look now and then as well. The result ends it.
   */
  listen(channel: string, look: () => void): () => void;
  /** Rejects with `store_unavailable` when the database does not answer. */
  ping(): Promise<void>;
  /** Waits for what runs, then closes every connection. Harmless when repeated. */
  close(): Promise<void>;
}
