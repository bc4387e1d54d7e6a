/** A piece of a text with placeholders. */
export type TemplatePart =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'variable'; readonly name: string; readonly fallback: string | undefined }
  | { readonly kind: 'file'; readonly path: string };

/** The pieces of a text, or a sentence that says why it cannot be read. The sentence never quotes the text. */
export type Template =
  | { readonly ok: true; readonly parts: readonly TemplatePart[] }
  | { readonly ok: false; readonly message: string };

const variableName = /^[A-Za-z_][A-Za-z0-9_]*$/;
const opening = /\$\$\{|\$\{/g;

const escapeHint = 'write "$${" where the characters "${" themselves are meant';

function parsePlaceholder(inside: string): TemplatePart | string {
  if (inside.includes('${')) return 'a placeholder cannot hold another one; use one variable';
  if (inside.startsWith('file:')) {
    const path = inside.slice('file:'.length).trim();
    return path === '' ? '"${file:}" names no file; write ${file:PATH}' : { kind: 'file', path };
  }
  const separator = inside.indexOf(':-');
  const name = separator === -1 ? inside : inside.slice(0, separator);
  if (!variableName.test(name))
    return `"\${…}" must hold NAME, NAME:-default or file:PATH, where NAME is an environment variable; ${escapeHint}`;
  return { kind: 'variable', name, fallback: separator === -1 ? undefined : inside.slice(separator + 2) };
}

/**
 * Splits a text at its placeholders: `${NAME}`, `${NAME:-default}`, `${file:PATH}`; `$${` stands for `${`
 * itself. A text without `${` is one piece.
 */
export function parseTemplate(text: string): Template {
  const parts: TemplatePart[] = [];
  let literal = '';
  let position = 0;
  const flush = (): void => {
    if (literal !== '') parts.push({ kind: 'text', text: literal });
    literal = '';
  };
  for (;;) {
    opening.lastIndex = position;
    const found = opening.exec(text);
    if (found === null) break;
    literal += text.slice(position, found.index);
    position = found.index + found[0].length;
    if (found[0] === '$${') {
      literal += '${';
      continue;
    }
    const end = text.indexOf('}', position);
    if (end === -1)
      return { ok: false, message: `a "\${" in this value has no "}"; add it, or ${escapeHint}` };
    const part = parsePlaceholder(text.slice(position, end));
    if (typeof part === 'string') return { ok: false, message: part };
    flush();
    parts.push(part);
    position = end + 1;
  }
  literal += text.slice(position);
  flush();
  return { ok: true, parts };
}
