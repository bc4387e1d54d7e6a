import { ApiError } from '@/api/client';
import type { operations } from '@/api/schema.gen';
import { isObject } from '@/lib/json';

type Get = operations['prompts.get']['responses'][200]['content']['application/json'];
type Put = NonNullable<operations['prompts.update']['requestBody']>['content']['application/json'];

/** A prompt with one of its versions. */
export type Prompt = Get;

export interface Message {
  readonly role: string;
  readonly content: string;
}

/** What stands in the editor; parameters and tools as the texts that were typed. */
export interface Draft {
  readonly name: string;
  readonly collection: string;
  readonly workspace: string;
  /** `messages`: a list of messages with texts. `text`: plain text, or JSON that has no such form. */
  readonly form: 'messages' | 'text';
  readonly messages: readonly Message[];
  readonly text: string;
  readonly model: string;
  readonly provider: string;
  readonly temperature: string;
  readonly maxTokens: string;
  readonly otherParameters: string;
  readonly tools: string;
  readonly toolChoice: string;
}

export const emptyDraft: Draft = {
  ...{ name: '', collection: '', workspace: '', form: 'messages', text: '' },
  messages: [
    { role: 'system', content: '' },
    { role: 'user', content: '' },
  ],
  ...{
    model: '',
    provider: '',
    temperature: '',
    maxTokens: '',
    otherParameters: '',
    tools: '',
    toolChoice: '',
  },
};

/** The template as messages with texts; undefined for one that is something else. */
export function messagesOf(template: string): readonly Message[] | undefined {
  let value: unknown;
  try {
    value = JSON.parse(template);
  } catch {
    return undefined;
  }
  if (!Array.isArray(value) || value.length === 0) return undefined;
  const messages: Message[] = [];
  for (const one of value as readonly unknown[]) {
    if (typeof one !== 'object' || one === null) return undefined;
    const { role, content, ...rest } = one as Readonly<Record<string, unknown>>;
    if (typeof role !== 'string' || typeof content !== 'string' || Object.keys(rest).length > 0)
      return undefined;
    messages.push({ role, content });
  }
  return messages;
}

export function templateOf({ form, messages, text }: Pick<Draft, 'form' | 'messages' | 'text'>): string {
  return form === 'text' ? text : JSON.stringify(messages);
}

function jsonText(value: unknown): string {
  if (value === null || value === undefined || value === '') return '';
  if (
    Array.isArray(value) ? value.length === 0 : typeof value === 'object' && Object.keys(value).length === 0
  )
    return '';
  return JSON.stringify(value, null, 2);
}

const numberText = (value: unknown): string => (typeof value === 'number' ? String(value) : '');

/** The editor's content for a stored version. */
export function draftOf(prompt: Prompt): Draft {
  const messages = messagesOf(prompt.string);
  const { temperature, max_tokens: maxTokens, ...others } = prompt.parameters;
  const { tool_choice: choice } = prompt;
  return {
    ...{ name: prompt.name, collection: prompt.collection_id, workspace: prompt.workspace_id },
    ...{
      form: messages ? 'messages' : 'text',
      messages: messages ?? [],
      text: messages ? '' : prompt.string,
    },
    ...{ model: prompt.model, provider: prompt.virtual_key },
    ...{ temperature: numberText(temperature), maxTokens: numberText(maxTokens) },
    otherParameters: jsonText({
      ...others,
      ...(typeof temperature !== 'number' && temperature !== undefined && { temperature }),
      ...(typeof maxTokens !== 'number' && maxTokens !== undefined && { max_tokens: maxTokens }),
    }),
    tools: jsonText(prompt.tools),
    toolChoice: typeof choice === 'string' ? choice : jsonText(choice),
  };
}

/** A field of the editor that cannot be sent, with the reason. */
export class DraftFault extends Error {
  readonly field: keyof Draft;

  constructor(field: keyof Draft, message: string) {
    super(message);
    this.field = field;
  }
}

function parsed(field: keyof Draft, text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new DraftFault(field, error instanceof Error ? error.message : String(error));
  }
}

/** The version of a draft as the API takes it. Throws a `DraftFault` for what is no JSON. */
export function versionOf(draft: Draft, texts: { readonly object: string; readonly list: string }) {
  const others = draft.otherParameters.trim() === '' ? {} : parsed('otherParameters', draft.otherParameters);
  if (!isObject(others)) throw new DraftFault('otherParameters', texts.object);
  const tools = draft.tools.trim() === '' ? [] : parsed('tools', draft.tools);
  if (!Array.isArray(tools) || !tools.every(isObject)) throw new DraftFault('tools', texts.list);
  const choice = draft.toolChoice.trim();
  return {
    string: templateOf(draft),
    parameters: {
      ...others,
      ...(draft.temperature !== '' && { temperature: Number(draft.temperature) }),
      ...(draft.maxTokens !== '' && { max_tokens: Number(draft.maxTokens) }),
    },
    ...{ model: draft.model.trim(), virtual_key: draft.provider },
    tools,
    ...(choice !== '' && {
      tool_choice: choice.startsWith('{')
        ? (parsed('toolChoice', choice) as Record<string, unknown>)
        : choice,
    }),
  } satisfies Put;
}

/** The names in a template that values are sent for, and the partials that it includes. */
export function variablesOf(template: string): {
  readonly variables: readonly string[];
  readonly sections: readonly string[];
  readonly partials: readonly string[];
} {
  const found = { variables: new Set<string>(), sections: new Set<string>(), partials: new Set<string>() };
  for (const [, triple, sign, name] of template.matchAll(
    /\{\{(?:\{\s*([^{}]+?)\s*\}|([#^/>&!=]?)\s*([^{}]+?)\s*)\}\}/g,
  )) {
    const text = triple ?? name ?? '';
    if (sign === '!' || sign === '=' || sign === '/' || text === '.') continue;
    if (sign === '>') found.partials.add(text);
    else if (sign === '#' || sign === '^') found.sections.add(text);
    else found.variables.add(text);
  }
  for (const name of found.sections) found.variables.delete(name);
  return {
    variables: [...found.variables],
    sections: [...found.sections],
    partials: [...found.partials],
  };
}

/** Values by name as the API takes them: a dotted name is a member, and values of sections may be JSON. */
export function valuesOf(
  given: Readonly<Record<string, string>>,
  sections: readonly string[],
): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  for (const [name, text] of Object.entries(given)) {
    if (text === '') continue;
    let value: unknown = text;
    if (sections.includes(name))
      try {
        value = JSON.parse(text);
      } catch {
        // A text then: it opens the section.
      }
    const parts = name.split('.');
    const last = parts.pop() ?? name;
    let place = values;
    for (const part of parts) {
      const inner = place[part];
      place = isObject(inner) ? inner : ((place[part] = {}) as Record<string, unknown>);
    }
    place[last] = value;
  }
  return values;
}

/** A version as lines that people read, for differences. */
export function readable(version: {
  readonly template: string;
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly model: string;
}): string {
  const messages = messagesOf(version.template);
  const body =
    messages === undefined
      ? version.template
      : messages.map(({ role, content }) => `[${role}]\n${content}`).join('\n\n');
  const parameters = Object.entries(version.parameters).map(
    ([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`,
  );
  return [...(version.model === '' ? [] : [`model: ${version.model}`]), ...parameters, '', body]
    .join('\n')
    .trim();
}

/** Faults by the fields of the editor. */
export type Faults = Partial<Record<keyof Draft, string>>;

/** The faults of a refused draft by their fields; the rest as one text. */
export function faultsOf(error: unknown): { readonly faults: Faults; readonly rest: string | undefined } {
  if (error instanceof DraftFault) return { faults: { [error.field]: error.message }, rest: undefined };
  if (!(error instanceof ApiError)) return { faults: {}, rest: String(error) };
  const places: Readonly<Record<string, keyof Draft>> = {
    ...{ '/string': 'messages', '/model': 'model', '/virtual_key': 'provider', '/name': 'name' },
    ...{ '/parameters': 'otherParameters', '/tools': 'tools', '/tool_choice': 'toolChoice' },
    ...{ '/collection_id': 'collection', '/workspace_id': 'workspace' },
  };
  const faults: Faults = {};
  const rest: string[] = [];
  const mistakes =
    error.mistakes.length > 0 ? error.mistakes : [{ path: error.param, message: error.message }];
  for (const { path, message } of mistakes) {
    const field = places[`/${path.split('/')[1] ?? ''}`];
    if (field === undefined) rest.push(path === '' ? message : `${path} ${message}`);
    else {
      faults[field] = message;
      if (field === 'messages') faults.text = message;
    }
  }
  return { faults, rest: rest.length > 0 ? rest.join(' ') : undefined };
}
