export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The object of a text of JSON; an empty text is an empty one. Undefined for any other text. */
export function objectOf(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text.trim() || '{}');
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
