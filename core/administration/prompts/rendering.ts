import { GatewayError } from '../../errors/gateway-error.ts';
import type { JsonObject, JsonValue } from '../../pipeline/context.ts';
import { encode } from '../../pipeline/json-splice.ts';
import type { Template, TemplatePart } from './template.ts';

const maxBytes = 4_194_304;
const maxSteps = 200_000;
const maxDepth = 10;
const maxNamed = 20;

type Found = { readonly value: JsonValue } | undefined;

/**
 * Renders the templates of one prompt with one set of variables. All of them together make 4 MiB at the most. Nothing is
 * run and nothing is escaped: texts stand as they are, numbers and booleans as JSON has them, objects and lists as JSON.
 */
export class Rendering {
  readonly #stack: JsonValue[];
  readonly #partials: ReadonlyMap<string, Template>;
  readonly #missing = new Set<string>();
  #bytes = 0;
  #steps = 0;
  #depth = 0;

  /** `partials` by what stands in their tags. */
  constructor(variables: JsonObject, partials: ReadonlyMap<string, Template>) {
    this.#stack = [variables];
    this.#partials = partials;
  }

  /** Throws `invalid_request` when the text becomes too long, or when rendering takes too long. */
  text({ parts }: Pick<Template, 'parts'>): string {
    let text = '';
    for (const part of parts) text += this.#part(part);
    return text;
  }

  /** Throws `invalid_request` that names the variables that were needed so far and are not there. */
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
    if (++this.#steps > maxSteps) throw refused(`takes more than ${maxSteps} steps`);
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
        return isNothing(value) ? this.text(part) : '';
      }
      case 'partial':
        return this.#partial(part.name);
    }
  }

  #section(parts: readonly TemplatePart[], value: JsonValue | undefined): string {
    if (value === undefined || isNothing(value)) return '';
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
    if (template === undefined) throw refused(`includes the partial "${name}", which is not there`);
    if (++this.#depth > maxDepth) throw refused(`includes partials ${maxDepth} deep`);
    const text = this.text(template);
    this.#depth--;
    return text;
  }

  /** Innermost first. Only members that the values themselves have: nothing is inherited, nothing is called. */
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
    if (this.#bytes > maxBytes) throw refused(`becomes longer than ${maxBytes} bytes`);
    return text;
  }
}

function memberOf(value: JsonValue | undefined, name: string): Found {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
  const member = (value as JsonObject)[name];
  return member === undefined ? undefined : { value: member };
}

function isNothing(value: JsonValue | undefined): boolean {
  return !value || (Array.isArray(value) && value.length === 0);
}

function textOf(value: JsonValue): string {
  if (typeof value === 'string') return value;
  if (value === null) return '';
  return typeof value === 'object' ? encode(value) : String(value);
}

function refused(what: string): GatewayError {
  return new GatewayError(
    'invalid_request',
    `The prompt with these variables ${what}. Send less, or make the template smaller.`,
    { param: 'variables' },
  );
}
