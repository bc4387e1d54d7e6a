import { dirname, isAbsolute, resolve } from 'node:path';
import type { ConfigNode, MapEntry, Origin, ScalarNode } from './config-node.ts';
import { childPointer } from '../base/pointer.ts';
import type { Problem } from './problem.ts';
import { problemAtNode } from './problem-list.ts';
import { maxInputFileBytes, readText, type ReadFile, type ReadResult } from './read-file.ts';
import { parseTemplate, type TemplatePart } from './template.ts';

/** Where the values of placeholders come from. */
export interface InterpolationInput {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly readFile?: ReadFile | undefined;
}

/** The tree with its variables replaced. */
export interface Interpolated {
  readonly root: ConfigNode;
  readonly problems: readonly Problem[];
  /** Absolute names of the `${file:…}` inputs, also of those that could not be read. */
  readonly inputs: readonly string[];
}

/**
 * Replaces `${…}` in the texts of a parsed tree, never in YAML itself: what a variable holds cannot become
 * structure. Numbers stay text here; validation turns `${PORT}` into a number where the schema asks for one.
 */
export async function interpolate(root: ConfigNode, input: InterpolationInput): Promise<Interpolated> {
  const interpolation = new Interpolation(input);
  const replaced = await interpolation.node(root, '');
  return { root: replaced, problems: interpolation.problems, inputs: [...interpolation.files.keys()] };
}

/** The value of one placeholder, or a sentence that says why it has none. */
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
      // As in a shell, `:-` also replaces a variable that is empty.
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
    // Files that hold a secret end with a line break that is none of it.
    if (result.ok) return { text: result.text.replace(/\r?\n$/, '') };
    return { message: `the file in \${file:${part.path}} ${result.message}` };
  }
}

function placeholderName(part: Exclude<TemplatePart, { kind: 'text' }>): string {
  return part.kind === 'file' ? `\${file:${part.path}}` : `\${${part.name}}`;
}
