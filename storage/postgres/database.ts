import type { NodePgQueryResultHKT } from 'drizzle-orm/node-postgres';
import type { PgDatabase } from 'drizzle-orm/pg-core';

/** Builds and runs statements on one connection of the database, inside or outside of a transaction. */
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

/** Options of a transaction. */
export interface TransactionOptions {
  /** One consistent view of everything, and no writes. Default false: read committed, for writing. */
  readonly readOnly?: boolean;
  /** Channel whose subscribers, in every process, are notified after the commit. */
  readonly notify?: string;
}

/**
 * The relational store: a PostgreSQL server, or the embedded engine, which has one shared connection. Failures reject
 * with a `GatewayError` that quotes no values: `already_exists` when a unique index refuses a row (`violatedConstraint`
 * names the index), `store_unavailable` when the database is unavailable or too slow, `internal` when it refuses a
 * statement. Errors thrown by `work` itself pass unchanged.
 */
export interface Database {
  readonly embedded: boolean;
  /** True while a connection is in use or requested. */
  readonly isBusy: boolean;
  /** Runs `work` on one connection, each statement on its own. It is cut off after 30 seconds. */
  query<T>(work: (statements: Statements) => Promise<T>): Promise<T>;
  /**
   * Runs `work` in one transaction: committed when it resolves, rolled back when it rejects. It is cut off after 30
   * seconds. Never open another one inside: the embedded engine would wait for itself. No network calls inside.
   */
  transaction<T>(work: (statements: Statements) => Promise<T>, options?: TransactionOptions): Promise<T>;
  /**
   * Calls `look` after a committed transaction that notified the channel, here or in another process, and after every
   * loss of the connection. Notifications may be lost: also check periodically. The returned function unsubscribes.
   */
  listen(channel: string, look: () => void): () => void;
  /** Rejects with `store_unavailable` when the database does not answer. */
  ping(): Promise<void>;
  /** Waits for running work, then closes every connection. May be repeated. */
  close(): Promise<void>;
}
