/** Text in which nothing needs an escape. */
const plain = /^[ !#-[\]-~]*$/;

/** A JSON string. Nearly every value of a log row is plain ASCII; testing that is cheaper than escaping it. */
export function quote(text: string): string {
  return plain.test(text) ? `"${text}"` : JSON.stringify(text);
}
