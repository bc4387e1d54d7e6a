import type { Answer } from '../pipeline/answer.ts';
import type { RequestContext } from '../pipeline/context.ts';
import type { DialectName } from '../dialects/endpoint.ts';

/** Which provider a request goes to and with whose credential. Holds a secret: never log it whole. */
export interface Target {
  /** As addressed. */
  readonly provider: string;
  readonly service: string;
  readonly dialect: DialectName;
  readonly origin: string;
  /** Path of the base URL without a trailing slash: `/v1`. */
  readonly basePath: string;
  /** The request named the host, and it is none of `security.trusted_hosts`: public addresses only. */
  readonly guarded: boolean;
  /** Headers that carry the credential and the row's own headers, flat. */
  readonly headers: readonly string[];
  /** The caller's own `authorization` is passed on. */
  readonly passAuthorization: boolean;
  readonly usageInStream: 'always' | 'on_request' | 'never';
}

/** Options of the `provider` plugin that the router needs. */
export interface RouteOptions {
  /** Provider to use when the request names none. */
  readonly defaultProvider: string | undefined;
  readonly connectTimeoutMs: number;
  readonly headTimeoutMs: number;
  readonly idleTimeoutMs: number;
  readonly maxAnswerBytes: number;
  /** Refuse what only some providers understand (`thinking`), unless the request's header says otherwise. */
  readonly strictOpenAiCompliance: boolean;
}

/** Decides where a request goes and carries it there. Only the `provider` plugin uses it. */
export interface Router {
  /** The target that headers and options name. Throws `provider_missing`, `provider_unknown`, `provider_ambiguous`, `custom_host_refused`. */
  resolve(context: RequestContext, options: RouteOptions): Target;
  /** Runs the attempt hooks, sends the request and returns the answer's head with its body still flowing when streamed. */
  execute(context: RequestContext, target: Target, options: RouteOptions): Promise<Answer>;
}
