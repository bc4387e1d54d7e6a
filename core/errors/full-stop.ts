/** The text with a full stop, unless it ends like a sentence already. */
export function withFullStop(text: string): string {
  return text === '' || /[.?!]$/.test(text) ? text : `${text}.`;
}

/** The text without the full stop at its end, to go on behind it. */
export function withoutFullStop(text: string): string {
  return text.endsWith('.') ? text.slice(0, -1) : text;
}
