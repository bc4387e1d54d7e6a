import type { FieldPath } from './field-path.ts';

/** A compiled query: whether the fields of a request meet it. Pure, never throws. */
export type Condition = (field: (path: FieldPath) => unknown) => boolean;
