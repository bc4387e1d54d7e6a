import type { Static, TSchema } from 'typebox';
import type { KeyRecord } from '../ports/directory.ts';
import type { RequestContext } from '../pipeline/context.ts';

/** What a handler gets: plain, validated data. */
export interface RouteInput<P, Q, B> {
  readonly params: P;
  readonly query: Q;
  readonly body: B;
  readonly key: KeyRecord;
  readonly context: RequestContext;
}

/** An administration endpoint, declared once. Mounted, validated and documented from this one object. */
export interface RouteDefinition {
  /** Stable operation id (`logs.get`). */
  readonly id: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Pattern below the base path: `/logs/{id}`. */
  readonly path: string;
  readonly summary: string;
  /** The scope that the key must hold (`logs.view`). */
  readonly scope: string;
  /** The audit action, or null with a reason in a comment for routes that change nothing. */
  readonly audit: string | null;
  readonly params?: TSchema;
  readonly query?: TSchema;
  readonly body?: TSchema;
  readonly reply: TSchema;
  handle(input: RouteInput<unknown, unknown, unknown>): unknown;
}

type Data<S> = S extends TSchema ? Static<S> : Record<string, never>;

/** Types the handler from its schemas. The reply is checked against its schema before it leaves. */
export function defineRoute<
  R extends TSchema,
  P extends TSchema | undefined = undefined,
  Q extends TSchema | undefined = undefined,
  B extends TSchema | undefined = undefined,
>(route: {
  id: string;
  method: RouteDefinition['method'];
  path: string;
  summary: string;
  scope: string;
  audit: string | null;
  params?: P;
  query?: Q;
  body?: B;
  reply: R;
  handle(input: RouteInput<Data<P>, Data<Q>, Data<B>>): Static<R> | Promise<Static<R>>;
}): RouteDefinition {
  return route;
}
