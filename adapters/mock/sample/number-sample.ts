import type { JsonObject } from '../json-value.ts';

/** The number nearest to zero within the schema's bounds; `variant` counts on from there. */
export function sampleNumber(schema: JsonObject, whole: boolean, variant: number): number {
  const step = positive(schema['multipleOf']) ?? (whole ? 1 : undefined);
  const { least, most } = bounds(schema, step ?? 0.001);
  if (step === undefined) return Math.min(Math.max(variant, least), most);
  const near = Math.max(least, Math.min(0, most));
  const lowest = near < 0 ? Math.floor(near / step) : Math.ceil(near / step);
  const count = near < 0 ? lowest - variant : lowest + variant;
  return rounded(count * step);
}

function bounds(schema: JsonObject, gap: number): { least: number; most: number } {
  let least = number(schema['minimum']) ?? -Infinity;
  let most = number(schema['maximum']) ?? Infinity;
  const above = number(schema['exclusiveMinimum']);
  const below = number(schema['exclusiveMaximum']);
  // Between two exclusive bounds that are closer than the gap, the middle is inside.
  if (above !== undefined) least = Math.max(least, Math.min(above + gap, middle(above, below ?? most)));
  if (below !== undefined) most = Math.min(most, Math.max(below - gap, middle(above ?? least, below)));
  return { least, most };
}

function middle(low: number, high: number): number {
  if (high === Infinity) return Infinity;
  return low === -Infinity ? -Infinity : (low + high) / 2;
}

/** Without the tail that binary fractions leave (3 × 0.1). */
function rounded(value: number): number {
  return Math.abs(value) < 1e12 ? Number(value.toFixed(9)) : value;
}

function number(value: unknown): number | undefined {
  return typeof value === 'number' ? value : undefined;
}

function positive(value: unknown): number | undefined {
  return typeof value === 'number' && value > 0 ? value : undefined;
}
