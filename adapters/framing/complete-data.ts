/**
 * True for the data of a last frame that can have come whole although nothing closes it: JSON, or the `[DONE]` that
 * ends OpenAI-like streams.
 */
export function isCompleteData(data: string): boolean {
  if (data === '[DONE]') return true;
  try {
    JSON.parse(data);
    return true;
  } catch {
    return false;
  }
}
