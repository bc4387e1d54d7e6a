/** A stand-in for a service of the table, and its answers. */
import type { JsonValue } from '../../../core/pipeline/plugin.ts';

export interface StandIn {
  readonly parameters?: Readonly<Record<string, unknown>>;
  readonly credentials?: Readonly<Record<string, unknown>>;
  /** The path with its query, and a header that holds the credential. */
  readonly path: string;
  readonly header?: readonly [name: string, value: string | RegExp];
  /** A part of the body for the text `My mail is ann@example.com`. */
  readonly body: Readonly<Record<string, unknown>>;
  readonly passes: JsonValue;
  readonly fails: JsonValue;
  readonly findings: readonly string[];
  /** JSON with status 200 that contains no judgement of the text. */
  readonly vague: JsonValue;
  /** The text after `redact` (or the parameters of `replacing`), when the service answers `replacing`. */
  readonly replaced?: string;
  readonly replacing?: {
    readonly answer: JsonValue;
    readonly parameters?: Readonly<Record<string, unknown>>;
  };
}

/** The text that services judge. */
export const judged = 'My mail is ann@example.com';
/** A credential: no result, error or log may hold it. */
export const neverShown = 'never-shown-0123456789';
export const key = { apiKey: neverShown };
export const bearer = ['authorization', `Bearer ${neverShown}`] as const;
