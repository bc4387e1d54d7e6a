import type { JsonObject, JsonValue } from '../../pipeline/context.ts';
import { compileTemplate, type Template, TemplateError, type TemplatePart } from './template.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import type { PromptData } from '../../ports/record-kinds.ts';
import { type FoundPrompt, includedPartials } from './find-prompt.ts';
import type { PromptSource } from './prompt-source.ts';
import { writeJson } from '../../base/json.ts';

const maxBytes = 4_194_304;
const maxSteps = 200_000;
const maxDepth = 10;
const maxNamed = 20;

type Found = { readonly value: JsonValue } | undefined;

/**
 * Renders the templates of one prompt with one set of variables, up to 4 MiB in all. Executes nothing and escapes
 * nothing: texts stay as they are, numbers, booleans, objects and lists become JSON.
 */
export class Rendering {
  readonly #stack: JsonValue[];
  readonly #partials: ReadonlyMap<string, Template>;
  readonly #missing = new Set<string>();
  #bytes = 0;
  #steps = 0;
  #depth = 0;

  /** `partials` by the names in their tags. */
  constructor(variables: JsonObject, partials: ReadonlyMap<string, Template>) {
    this.#stack = [variables];
    this.#partials = partials;
  }

  /** Throws `invalid_request` when the text grows too long, or rendering takes too long. */
  text({ parts }: Pick<Template, 'parts'>): string {
    let text = '';
    for (const part of parts) text += this.#part(part);
    return text;
  }

  /** Throws `invalid_request` with the names of missing variables met so far. */
  requireComplete(): void {
    if (this.#missing.size === 0) return;
    const names = [...this.#missing].sort();
    const rest = names.length - maxNamed;
    const shown = names.slice(0, maxNamed).map((name) => `"${name}"`);
    const listed = `${shown.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
    throw new GatewayError(
      'invalid_request',
      `The prompt needs the ${names.length === 1 ? 'variable' : 'variables'} ${listed}. Send ${names.length === 1 ? 'it' : 'them'} in "variables"; null stands for nothing.`,
      { param: 'variables' },
    );
  }

  #part(part: TemplatePart): string {
    if (++this.#steps > maxSteps) throw renderError(`takes more than ${maxSteps} steps`);
    switch (part.kind) {
      case 'text':
        return this.#counted(part.text);
      case 'variable': {
        const found = this.#find(part.path);
        if (found !== undefined) return this.#counted(textOf(found.value));
        this.#missing.add(part.name);
        return '';
      }
      case 'section':
        return this.#section(part.parts, this.#find(part.path)?.value);
      case 'inverted': {
        const value = this.#find(part.path)?.value;
        return isFalsy(value) ? this.text(part) : '';
      }
      case 'partial':
        return this.#partial(part.name);
    }
  }

  #section(parts: readonly TemplatePart[], value: JsonValue | undefined): string {
    if (value === undefined || isFalsy(value)) return '';
    if (value === true) return this.text({ parts });
    let text = '';
    for (const item of Array.isArray(value) ? value : [value]) {
      this.#stack.push(item);
      text += this.text({ parts });
      this.#stack.pop();
    }
    return text;
  }

  #partial(name: string): string {
    const template = this.#partials.get(name);
    if (template === undefined) throw renderError(`includes the partial "${name}", which is not there`);
    if (++this.#depth > maxDepth) throw renderError(`includes partials ${maxDepth} deep`);
    const text = this.text(template);
    this.#depth--;
    return text;
  }

  /** Innermost first. Own members only: nothing is inherited or called. */
  #find(path: readonly string[]): Found {
    const [first] = path;
    if (first === undefined) return { value: this.#stack[this.#stack.length - 1] as JsonValue };
    for (let at = this.#stack.length - 1; at >= 0; at--) {
      const holder = memberOf(this.#stack[at], first);
      if (holder === undefined) continue;
      let found: Found = holder;
      for (let next = 1; next < path.length && found !== undefined; next++)
        found = memberOf(found.value, path[next] as string);
      return found;
    }
    return undefined;
  }

  #counted(text: string): string {
    this.#bytes += Buffer.byteLength(text);
    if (this.#bytes > maxBytes) throw renderError(`becomes longer than ${maxBytes} bytes`);
    return text;
  }
}

function memberOf(value: JsonValue | undefined, name: string): Found {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
  const member = (value as JsonObject)[name];
  return member === undefined ? undefined : { value: member };
}

function isFalsy(value: JsonValue | undefined): boolean {
  return !value || (Array.isArray(value) && value.length === 0);
}

function textOf(value: JsonValue): string {
  if (typeof value === 'string') return value;
  if (value === null) return '';
  return typeof value === 'object' ? writeJson(value) : String(value);
}

function renderError(what: string): GatewayError {
  return new GatewayError(
    'invalid_request',
    `The prompt with these variables ${what}. Send less, or make the template smaller.`,
    { param: 'variables' },
  );
}

/** Provider request made from a prompt. */
interface PromptRequest {
  readonly path: '/chat/completions' | '/completions';
  readonly body: JsonObject;
}

/** Members that the template sets; the client of a saved prompt may not send them. */
const templateMembers = ['messages', 'prompt'] as const;

/**
 * The body: the rendered template, the version's model, parameters, functions and tools, overridden by the caller's
 * members except `variables` and `strict`. Null members are left out. Plain text becomes one user message, or the
 * prompt of `/completions` when the version's metadata say `"type": "completion"`. Throws `invalid_request`.
 */
export function promptRequest(
  data: PromptData,
  rendered: RenderedPrompt,
  overrides: Readonly<Record<string, JsonValue>>,
): PromptRequest {
  for (const name of templateMembers) {
    if (!Object.hasOwn(overrides, name)) continue;
    throw new GatewayError(
      'invalid_request',
      `"${name}" comes from the prompt's template. Leave it out, or send the request to /chat/completions.`,
      { param: name },
    );
  }
  const isCompletion = rendered.kind === 'text' && data.metadata['type'] === 'completion';
  const body: JsonObject = {};
  if (rendered.kind === 'messages') body['messages'] = rendered.messages;
  else if (isCompletion) body['prompt'] = rendered.text;
  else body['messages'] = [{ role: 'user', content: rendered.text }];
  if (data.model !== '') body['model'] = withoutProvider(data);
  for (const [name, value] of Object.entries(data.parameters))
    if (!isTemplateMember(name)) add(body, name, json(value));
  if (data.functions.length > 0) add(body, 'functions', json(data.functions));
  if (data.tools.length > 0) add(body, 'tools', json(data.tools));
  if (data.tools.length > 0) add(body, 'tool_choice', json(data.toolChoice));
  for (const [name, value] of Object.entries(overrides)) {
    if (name !== 'variables' && name !== 'strict') add(body, name, value);
  }
  return { path: isCompletion ? '/completions' : '/chat/completions', body };
}

function isTemplateMember(name: string): boolean {
  return templateMembers.some((one) => one === name);
}

/** Strips the provider: the model may have been saved as `@slug/model`. */
function withoutProvider({ model, virtualKey }: PromptData): string {
  const prefix = `@${virtualKey.replace(/^@/, '')}/`;
  return virtualKey !== '' && model.startsWith(prefix) ? model.slice(prefix.length) : model;
}

/** The stored value is never mutated: the body is serialised at once. */
function json(value: PromptData['toolChoice']): JsonValue {
  return value as JsonValue;
}

/** Null removes the earlier value. */
function add(body: JsonObject, name: string, value: JsonValue): void {
  if (name === '__proto__') return;
  if (value === null) delete body[name];
  else body[name] = value;
}

/** Compiled templates by their version; released together with the directory's records. */
const compiled = new WeakMap<PromptData, PromptTemplate>();

/**
 * Request from a version of a prompt and the caller's members: `variables`, and overrides of the version's parameters.
 * A missing variable renders as nothing; with `strict: true` it throws `invalid_request` with the missing names. Other
 * obstacles throw `invalid_request` too.
 */
export async function renderStoredPrompt(
  source: PromptSource,
  { record, data }: FoundPrompt,
  sent: Readonly<Record<string, JsonValue>>,
): Promise<PromptRequest> {
  const { organisationId, workspaceId } = record;
  let prompt = compiled.get(data);
  if (prompt === undefined) compiled.set(data, (prompt = compilePrompt(data.template)));
  const partials = await includedPartials(source, { organisationId, workspaceId }, prompt.partials);
  const rendering = new Rendering(variablesOf(sent), partials);
  const rendered = renderPrompt(prompt, rendering);
  if (isStrict(sent)) rendering.requireComplete();
  return promptRequest(data, rendered, sent);
}

function isStrict({ strict }: Readonly<Record<string, JsonValue>>): boolean {
  if (strict === undefined || strict === null || typeof strict === 'boolean') return strict === true;
  throw new GatewayError('invalid_request', '"strict" is neither true nor false.', { param: 'strict' });
}

function variablesOf({ variables }: Readonly<Record<string, JsonValue>>): JsonObject {
  if (variables === undefined || variables === null) return {};
  if (typeof variables === 'object' && !Array.isArray(variables)) return variables;
  throw new GatewayError('invalid_request', '"variables" is no object of values by their name.', {
    param: 'variables',
  });
}

/** A prompt's template: messages whose texts are templates, or one text. */
type PromptTemplate = (
  | { readonly kind: 'messages'; readonly messages: readonly Node[] }
  | { readonly kind: 'text'; readonly text: Template }
) & {
  /** Included partials, each once. */
  readonly partials: readonly string[];
};

/** A rendered template. */
type RenderedPrompt =
  | { readonly kind: 'messages'; readonly messages: JsonValue[] }
  | { readonly kind: 'text'; readonly text: string };

/** JSON with templates instead of texts that have tags. */
type Node =
  | { readonly template: Template }
  | { readonly value: JsonValue }
  | { readonly items: readonly Node[] }
  | { readonly members: readonly (readonly [string, Node])[] };

const maxTemplateDepth = 32;

/**
 * Compiles a template: a JSON list of messages with tags in their texts, or plain text. The JSON is parsed first, so
 * that a variable never leaves its text. Throws `TemplateError`.
 */
export function compilePrompt(source: string): PromptTemplate {
  if (!/^\s*\[\s*(?:\{\s*["}]|\])/.test(source)) {
    const text = compileTemplate(source);
    return { kind: 'text', text, partials: text.partials };
  }
  // Reports mistakes in tags at their place in the whole, where possible.
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

/** Renders every text of the prompt; `rendering.requireComplete` then reports missing variables. */
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
  /** Start of the message. */
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
  if (depth === maxTemplateDepth) throw new TemplateError(`${path} is nested too deeply`, source, offset);
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

/** Start of an element in a valid JSON list. */
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
