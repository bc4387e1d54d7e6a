const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

/** Whether a header can have this name (a token of RFC 9110). */
export function isHeaderName(text: string): boolean {
  return token.test(text);
}

/** The names of a comma-separated list, in lower case, each once, in their order. They need not be names of headers. */
export function headerNameList(text: string): readonly string[] {
  const names = new Set<string>();
  for (const item of text.toLowerCase().split(',')) {
    const name = item.trim();
    if (name !== '') names.add(name);
  }
  return [...names];
}
