/** A stored time (`2030-01-31 09:00:00.123`, in UTC) as ISO 8601. Anything else is left as it is. */
export function isoTime(text: string): string {
  return /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?$/.test(text) ? `${text.replace(' ', 'T')}Z` : text;
}
