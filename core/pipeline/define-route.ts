import type { Static, TSchema } from 'typebox';
import type { Feature } from '../access/features.ts';
import type { Role } from '../access/scopes.ts';
import type { KeyRecord } from '../ports/directory.ts';
import type { Answer } from './answer.ts';
import type { RequestContext } from './context.ts';
import type { ResourcesReader, ResourcesWriter } from '../ports/resources.ts';

/** Input of a handler: plain, validated data. */
export interface RouteInput<P, Q, B> {
  readonly params: P;
  readonly query: Q;
  readonly body: B;
  /** Key of the caller. */
  readonly key: KeyRecord;
  /** Role of the caller in the key's workspace, or in the organisation. */
  readonly role: Role;
  readonly context: RequestContext;
  /** One consistent view of the administered records. Rejects with `not_supported` when `storage.resources` is off. */
  readonly read: <T>(work: (reader: ResourcesReader) => Promise<T>) => Promise<T>;
  /**
   * Runs `work` and appends the entry of the audit trail, in one transaction of the key's organisation: both become
   * visible, or neither. For routes that have an audit action. Rejects with `not_supported` when `storage.resources`
   * is off. No network calls inside.
   */
  readonly write: <T>(work: (writer: ResourcesWriter) => Promise<AuditedChange<T>>) => Promise<T>;
  /** Throws `version_mismatch` when the client asked, with `If-Match`, for another version of the record. */
  readonly requireVersion: (version: number) => void;
  /** Sends the version of the answered record to the client as `ETag`. */
  readonly sendVersion: (version: number) => void;
}

/** Result of a transaction, with the record that it changed, for the audit trail. */
export interface AuditedChange<T> {
  /** Of the record that was changed. */
  readonly id: string;
  /** Its workspace; undefined for a record of the organisation. */
  readonly workspaceId?: string | undefined;
  readonly result: T;
}

/** Examples in the reference; valid by the route's own schemas. */
export interface RouteExamples {
  /** The body, for a route that takes one. */
  readonly request?: unknown;
  readonly response: unknown;
}

/** An administration endpoint, declared once. Mounted, validated and documented from this one object. */
export interface RouteDefinition {
  /** Stable operation id: subject and action (`logs.get`). The first part names it in the audit trail. */
  readonly id: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Pattern below the base path: `/logs/{id}`. */
  readonly path: string;
  readonly summary: string;
  /** The scope that the key must hold (`logs.view`), or several, any one of which suffices; an empty list: every key may. */
  readonly scope: string | readonly string[];
  /** The feature that it belongs to: refused, with a sentence, while that is switched off. */
  readonly feature?: Feature;
  /**
   * For routes whose callers have no service key: identifies the caller by the credential in the validated body (in the
   * query, of a route without a body). Throws `key_invalid` for an unknown credential. The caller must hold the scope, as
   * every caller must.
   */
  identify?(credentials: unknown, read: RouteInput<unknown, unknown, unknown>['read']): Promise<KeyRecord>;
  /** The audit action, or null with a reason in a comment for routes that change nothing. */
  readonly audit: string | null;
  /** The audit trail leaves the body out: it may hold secrets under any name. */
  readonly isBodySecret?: true;
  readonly params?: TSchema;
  readonly query?: TSchema;
  readonly body?: TSchema;
  readonly reply: TSchema;
  /** Media type of an answer other than JSON: `handle` returns the whole `Answer`; `reply` is only for the reference. */
  readonly media?: string;
  /** An older form of another route; the reference marks it so. */
  readonly deprecated?: true;
  /** Default: generated from the schemas. */
  readonly examples?: RouteExamples;
  handle(input: RouteInput<unknown, unknown, unknown>): unknown;
}

/** Data of a part of a request that has passed this schema; empty without one. */
export type RouteData<S> = S extends TSchema ? Static<S> : Record<string, never>;

/** Declarations common to all routes; `identify` looks at `credentials`. */
interface RouteHead<P, Q, Credentials> {
  id: string;
  method: RouteDefinition['method'];
  path: string;
  summary: string;
  scope: string | readonly string[];
  feature?: Feature;
  identify?(
    credentials: Credentials,
    read: RouteInput<unknown, unknown, unknown>['read'],
  ): Promise<KeyRecord>;
  audit: string | null;
  isBodySecret?: true;
  params?: P;
  query?: Q;
  examples?: RouteExamples;
}

/** Types the handler from its schemas. The reply is checked against its schema before it leaves. */
export function defineRoute<
  R extends TSchema,
  P extends TSchema | undefined = undefined,
  Q extends TSchema | undefined = undefined,
  B extends TSchema | undefined = undefined,
>(
  route: RouteHead<P, Q, RouteData<B>> & {
    body?: B;
    reply: R;
    deprecated?: true;
    handle(input: RouteInput<RouteData<P>, RouteData<Q>, RouteData<B>>): Static<R> | Promise<Static<R>>;
  },
): RouteDefinition {
  return route;
}

/** As `defineRoute`, for a route that does not answer with one JSON document: a stream of events, a file. */
export function defineMediaRoute<
  P extends TSchema | undefined = undefined,
  Q extends TSchema | undefined = undefined,
>(
  route: RouteHead<P, Q, RouteData<Q>> & {
    reply: TSchema;
    media: string;
    handle(input: RouteInput<RouteData<P>, RouteData<Q>, Record<string, never>>): Answer | Promise<Answer>;
  },
): RouteDefinition {
  return route;
}
