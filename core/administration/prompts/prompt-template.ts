import type { JsonObject, JsonValue } from '../../pipeline/context.ts';
import type { Rendering } from './rendering.ts';
import { compileTemplate, type Template } from './template.ts';
import { TemplateError } from './template-error.ts';

/** A prompt's template: messages whose texts are templates, or one text. */
export type PromptTemplate = (
  | { readonly kind: 'messages'; readonly messages: readonly Node[] }
  | { readonly kind: 'text'; readonly text: Template }
) & {
  /** What it includes, each once. */
  readonly partials: readonly string[];
};

/** What a prompt's template comes to. */
export type RenderedPrompt =
  | { readonly kind: 'messages'; readonly messages: JsonValue[] }
  | { readonly kind: 'text'; readonly text: string };

/** JSON with templates in the place of texts that have tags. */
type Node =
  | { readonly template: Template }
  | { readonly value: JsonValue }
  | { readonly items: readonly Node[] }
  | { readonly members: readonly (readonly [string, Node])[] };

const maxDepth = 32;

/**
 * Compiles a template: a JSON list of messages, in whose texts the tags stand, or else plain text. Because the JSON is
 * read first, no variable ever leaves the text that it is put in. Throws `TemplateError`.
 */
export function compilePrompt(source: string): PromptTemplate {
  if (!/^\s*\[\s*(?:\{\s*["}]|\])/.test(source)) {
    const text = compileTemplate(source);
    return { kind: 'text', text, partials: text.partials };
  }
  // Mistakes in tags are told where they stand in the whole, wherever that is possible.
  compileTemplate(source);
  const messages = parseMessages(source);
  if (messages.length === 0) throw new TemplateError('the list has no message', source, 0);
  const partials = new Set<string>();
  return {
    kind: 'messages',
    messages: messages.map((message, index) => {
      const offset = elementOffset(source, index);
      checkMessage(message, index, { source, offset });
      return nodeOf(message, `[${index}]`, { source, offset, partials, depth: 0 });
    }),
    partials: [...partials],
  };
}

/** Renders every text of the prompt; `rendering.requireComplete` tells afterwards what was missing. */
export function renderPrompt(prompt: PromptTemplate, rendering: Rendering): RenderedPrompt {
  if (prompt.kind === 'text') return { kind: 'text', text: rendering.text(prompt.text) };
  return { kind: 'messages', messages: prompt.messages.map((node) => renderNode(node, rendering)) };
}

function renderNode(node: Node, rendering: Rendering): JsonValue {
  if ('template' in node) return rendering.text(node.template);
  if ('value' in node) return node.value;
  if ('items' in node) return node.items.map((item) => renderNode(item, rendering));
  const members: JsonObject = {};
  for (const [name, member] of node.members) members[name] = renderNode(member, rendering);
  return members;
}

function parseMessages(source: string): JsonValue[] {
  try {
    const parsed: unknown = JSON.parse(source);
    return Array.isArray(parsed) ? (parsed as JsonValue[]) : [];
  } catch (error) {
    const message = error instanceof Error ? error.message : '';
    const position = /position (\d+)/.exec(message)?.[1];
    throw new TemplateError(
      'the template begins like a JSON list of messages and is no valid JSON',
      source,
      position === undefined ? source.length : Number(position),
    );
  }
}

interface Place {
  readonly source: string;
  /** Where the message begins. */
  readonly offset: number;
}

function checkMessage(message: JsonValue, index: number, { source, offset }: Place): void {
  const role: unknown =
    typeof message === 'object' && message !== null ? Reflect.get(message, 'role') : undefined;
  if (typeof role === 'string' && role !== '') return;
  throw new TemplateError(`message ${index} is no object with a "role"`, source, offset);
}

interface Walk extends Place {
  readonly partials: Set<string>;
  readonly depth: number;
}

function nodeOf(value: JsonValue, path: string, walk: Walk): Node {
  const { source, offset, partials, depth } = walk;
  if (typeof value === 'string') {
    if (!value.includes('{{')) return { value };
    const template = compiledText(value, path, walk);
    for (const name of template.partials) partials.add(name);
    return { template };
  }
  if (typeof value !== 'object' || value === null) return { value };
  if (depth === maxDepth) throw new TemplateError(`${path} is nested too deeply`, source, offset);
  const below: Walk = { source, offset, partials, depth: depth + 1 };
  if (Array.isArray(value))
    return { items: value.map((item, index) => nodeOf(item, `${path}[${index}]`, below)) };
  return {
    members: Object.entries(value)
      .filter(([name]) => name !== '__proto__')
      .map(([name, member]) => [name, nodeOf(member, `${path}.${name}`, below)]),
  };
}

function compiledText(text: string, path: string, { source, offset }: Place): Template {
  try {
    return compileTemplate(text);
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error;
    throw new TemplateError(`in the text at ${path}, ${error.message}`, source, offset);
  }
}

/** Where the element of a valid JSON list begins. */
function elementOffset(source: string, wanted: number): number {
  let depth = 0;
  let index = 0;
  let isInText = false;
  for (let at = 0; at < source.length; at++) {
    const character = source[at];
    if (isInText) {
      if (character === '\\') at++;
      else if (character === '"') isInText = false;
      continue;
    }
    if (depth === 1 && index === wanted && !/[\s,]/.test(character ?? '')) return at;
    if (character === '"') isInText = true;
    else if (character === '[' || character === '{') depth++;
    else if (character === ']' || character === '}') depth--;
    else if (character === ',' && depth === 1) index++;
  }
  return 0;
}
