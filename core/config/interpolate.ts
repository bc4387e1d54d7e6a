import { dirname, isAbsolute, resolve } from 'node:path';
import type { ConfigNode, MapEntry, Origin, ScalarNode } from './config-node.ts';
import { childPointer } from '../base/pointer.ts';
import { type Problem, problemAtNode } from './problem.ts';
import { maxInputFileBytes, type ReadFile, type ReadResult, readText } from './read-file.ts';

/** A piece of a text with placeholders. */
export type TemplatePart =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'variable'; readonly name: string; readonly fallback: string | undefined }
  | { readonly kind: 'file'; readonly path: string };

/** Pieces of a text, or a sentence about its mistake. The sentence never quotes the text. */
type Template =
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
 * Splits a text at its placeholders: `${NAME}`, `${NAME:-default}`, `${file:PATH}`; `$${` is a literal `${`. A text
 * without `${` is one piece.
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

/** Sources of placeholder values. */
interface InterpolationInput {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly readFile?: ReadFile | undefined;
}

/** The tree with its placeholders replaced. */
interface Interpolated {
  readonly root: ConfigNode;
  readonly problems: readonly Problem[];
  /** Absolute names of the `${file:…}` inputs, including unreadable ones. */
  readonly inputs: readonly string[];
}

/**
 * Replaces `${…}` in the texts of a parsed tree, never in the YAML itself: the content of a variable cannot become
 * structure. Numbers stay text here; validation converts `${PORT}` to a number where the schema asks for one.
 */
export async function interpolate(root: ConfigNode, input: InterpolationInput): Promise<Interpolated> {
  const interpolation = new Interpolation(input);
  const replaced = await interpolation.node(root, '');
  return { root: replaced, problems: interpolation.problems, inputs: [...interpolation.files.keys()] };
}

/** Value of one placeholder, or a sentence with the reason why it has none. */
type Resolved = { readonly text: string } | { readonly message: string };

class Interpolation {
  readonly problems: Problem[] = [];
  readonly files = new Map<string, Promise<ReadResult>>();
  readonly #input: InterpolationInput;

  constructor(input: InterpolationInput) {
    this.#input = input;
  }

  async node(node: ConfigNode, pointer: string): Promise<ConfigNode> {
    if (node.kind === 'scalar')
      return typeof node.value === 'string' && node.value.includes('${')
        ? this.#scalar(node, node.value, pointer)
        : node;
    if (node.kind === 'list') {
      const items: ConfigNode[] = [];
      for (const [index, item] of node.items.entries())
        items.push(await this.node(item, childPointer(pointer, index)));
      return { ...node, items };
    }
    const entries = new Map<string, MapEntry>();
    for (const [key, entry] of node.entries) {
      const path = childPointer(pointer, key);
      if (key.includes('${'))
        this.problems.push(
          problemAtNode(entry.key, path, 'variables are not replaced in keys; write the key itself'),
        );
      entries.set(key, { key: entry.key, node: await this.node(entry.node, path) });
    }
    return { ...node, entries };
  }

  async #scalar(node: ScalarNode, text: string, pointer: string): Promise<ScalarNode> {
    const template = parseTemplate(text);
    if (!template.ok) {
      this.problems.push(problemAtNode(node.place, pointer, template.message));
      return { ...node, origin: { names: [], whole: false, resolved: false } };
    }
    const { parts } = template;
    let value = '';
    let resolved = true;
    for (const part of parts) {
      const result = await this.#resolve(part, node);
      if ('text' in result) value += result.text;
      else {
        resolved = false;
        this.problems.push(problemAtNode(node.place, pointer, result.message));
      }
    }
    const names = parts.flatMap((part) => (part.kind === 'text' ? [] : [placeholderName(part)]));
    if (names.length === 0) return { ...node, value };
    const origin: Origin = { names, whole: parts.length === 1, resolved };
    return { ...node, value, origin };
  }

  async #resolve(part: TemplatePart, node: ScalarNode): Promise<Resolved> {
    if (part.kind === 'text') return part;
    if (part.kind === 'variable') {
      const value = this.#input.env[part.name];
      // As in a shell, `:-` also replaces an empty variable.
      if (part.fallback !== undefined && (value === undefined || value === ''))
        return { text: part.fallback };
      if (value !== undefined) return { text: value };
      return {
        message: `the environment variable ${part.name} is not set; set it, or give a default: \${${part.name}:-default}`,
      };
    }
    const path = isAbsolute(part.path) ? part.path : resolve(dirname(node.place.file.path), part.path);
    const reading = this.files.get(path) ?? readText(path, maxInputFileBytes, this.#input.readFile);
    this.files.set(path, reading);
    const result = await reading;
    // Secret files end with a line break that is not part of the secret.
    if (result.ok) return { text: result.text.replace(/\r?\n$/, '') };
    return { message: `the file in \${file:${part.path}} ${result.message}` };
  }
}

function placeholderName(part: Exclude<TemplatePart, { kind: 'text' }>): string {
  return part.kind === 'file' ? `\${file:${part.path}}` : `\${${part.name}}`;
}
