import type { TSchema } from 'typebox';
import { compileSchema } from './ajv.ts';
import type { Origin } from './config-node.ts';
import type { Hide, Issue } from './issue.ts';
import { childPointer, parentPointer } from '../base/pointer.ts';
import { prepareValue } from './prepare-value.ts';
import { schemaObject } from './schema-object.ts';

/** A value as its schema describes it, and what is wrong with it, by its place within the value. */
export interface ValidatedValue {
  /** With defaults and keys in their own spelling. To be used only when there are no issues. */
  readonly value: unknown;
  readonly issues: readonly Issue[];
}

/** How a value is validated. */
export interface ValidateOptions {
  /** What a text at a place was put together from. Default: every text stands there as it is. */
  readonly origin?: (path: string) => Origin | undefined;
  /** What messages must not quote. Default: what stands under a key like `api_key`. */
  readonly hide?: Hide;
  /**
   * Most issues that are worked out, of keys and of values each. Set it for what strangers send, to 1 when that is large:
   * the cost of several grows with the square of their number. Default: all.
   */
  readonly most?: number;
}

const noOrigin = (): undefined => undefined;

/**
 * Brings a value into the form of its schema and validates it; every issue at once. Throws an `Error` when the schema
 * itself is wrong.
 */
export function validateValue(
  schema: TSchema,
  value: unknown,
  { origin = noOrigin, hide, most }: ValidateOptions = {},
): ValidatedValue {
  const check = compileSchema(
    schema,
    most === 1 ? {} : most === undefined ? { all: true } : { all: true, most },
  );
  const prepared = prepareValue(schemaObject(schema), value, origin, most);
  const issues = [...prepared.issues, ...check(prepared.value, hide)];
  // A misspelled key that is required would be reported twice.
  const meant = new Set(
    issues.flatMap(({ path, suggestion }) =>
      suggestion === undefined ? [] : childPointer(parentPointer(path), suggestion),
    ),
  );
  return {
    value: prepared.value,
    issues: issues.filter(({ missing = [] }) => !missing.some((path) => meant.has(path))),
  };
}
