/** Text in which nothing needs an escape. */
const plain = /^[ !#-[\]-~]*$/;

/** A JSON string. Nearly every short text is plain ASCII; testing that is cheaper than escaping it. */
export function quote(text: string): string {
  return plain.test(text) ? `"${text}"` : JSON.stringify(text);
}

/** The same as it stands within a JSON string, for JSON that is kept as a text. */
export function quoteWithin(text: string): string {
  return plain.test(text) ? `\\"${text}\\"` : JSON.stringify(JSON.stringify(text)).slice(1, -1);
}
