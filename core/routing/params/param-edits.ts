import type { JsonValue } from '../../pipeline/context.ts';

/** What a config changes in the request's body, compiled. Order: defaults, overrides, drops. */
export interface ParamEdits {
  /** Top-level members that are added where they are absent. */
  readonly defaults: readonly (readonly [name: string, value: JsonValue])[];
  /** Top-level members that are set in any case. */
  readonly overrides: readonly (readonly [name: string, value: JsonValue])[];
  /** Paths that are removed where they exist; `*` stands for every item of a list. */
  readonly drops: readonly (readonly (string | number)[])[];
}
