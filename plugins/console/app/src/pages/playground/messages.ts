import { isObject } from '@/lib/json';
import type { Json, Turn } from '@/pages/logs/blocks';
import { requestTurns } from '@/pages/logs/conversation';

export type Role = 'system' | 'user' | 'assistant' | 'tool';

/** A tool that a model calls. */
export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** JSON, as far as the model keeps to it. */
  readonly arguments: string;
}

/** One message of the conversation. */
export interface Message {
  readonly role: Role;
  readonly content: string;
  /** Of an assistant. */
  readonly calls?: readonly ToolCall[];
  /** Of a tool: the call that it answers. */
  readonly call?: Pick<ToolCall, 'id' | 'name'>;
  /** Addresses, most often `data:`. */
  readonly images?: readonly string[];
  /** How many images it had that were too large to be kept. */
  readonly imagesLeft?: number;
}

export const firstMessages: readonly Message[] = [{ role: 'user', content: '' }];
export const mostMessages = 100;

/** Whether a message says anything. */
export function isSaid({ role, content, calls = [], images = [] }: Message): boolean {
  return content !== '' || calls.length > 0 || images.length > 0 || role === 'tool';
}

/** The messages as Chat Completions take them. */
export function sentMessages(messages: readonly Message[]): readonly object[] {
  return messages.filter(isSaid).map(({ role, content, calls = [], call, images = [] }) => {
    if (role === 'tool') return { role, tool_call_id: call?.id ?? '', content };
    if (images.length > 0)
      return {
        role,
        content: [
          ...(content === '' ? [] : [{ type: 'text', text: content }]),
          ...images.map((url) => ({ type: 'image_url', image_url: { url } })),
        ],
      };
    if (calls.length === 0) return { role, content };
    const tool_calls = calls.map(({ id, name, arguments: sent }) => ({
      ...{ id, type: 'function' },
      function: { name, arguments: sent },
    }));
    return { role, content: content === '' ? null : content, tool_calls };
  });
}

/** The conversation with an answer, what its calls have got, and room for the next message of the user. */
export function withAnswer(
  messages: readonly Message[],
  { text, calls }: { readonly text: string; readonly calls: readonly ToolCall[] },
  results: readonly string[],
): readonly Message[] {
  // Hosts that give calls no id still want one back.
  const named = calls.map((call, index) => ({ ...call, id: call.id || `call_${messages.length}_${index}` }));
  const answer: Message = { role: 'assistant', content: text, ...(calls.length > 0 && { calls: named }) };
  const got = named.map((call, index): Message => ({ role: 'tool', content: results[index] ?? '', call }));
  const next: readonly Message[] = calls.length > 0 ? [] : [{ role: 'user', content: '' }];
  return [...messages.filter(isSaid), answer, ...got, ...next];
}

/** The conversation of a logged request of any wire, and its tools; without messages when it holds none. */
export function conversationOf(
  body: unknown,
  format: string,
): { readonly messages: readonly Message[]; readonly tools: string } {
  const writer = new Writer();
  for (const turn of requestTurns(body, format)) writer.add(turn);
  const tools = chatTools(body);
  return {
    messages: writer.messages.slice(-mostMessages),
    tools: tools.length === 0 ? '' : JSON.stringify(tools, null, 2),
  };
}

/** Writes turns of any wire as messages. */
class Writer {
  readonly messages: Message[] = [];
  /** Calls without an answer: some wires name the tool instead of the call. */
  #open: ToolCall[] = [];

  add({ role, parts }: Turn): void {
    const words: string[] = [];
    const images: string[] = [];
    const calls: ToolCall[] = [];
    for (const part of parts) {
      if (part.kind === 'text' || part.kind === 'refusal') words.push(part.text);
      else if (part.kind === 'image') images.push(part.url);
      else if (part.kind === 'call')
        calls.push({
          id: part.id || `call_${this.messages.length}_${calls.length}`,
          name: part.name,
          arguments: part.text,
        });
      else if (part.kind === 'result') this.#result(part.id, part.name, part.text);
    }
    const message: Message = {
      role: role === 'developer' ? 'system' : role === 'system' || role === 'assistant' ? role : 'user',
      content: words.join('\n'),
      ...(calls.length > 0 && { calls }),
      ...(images.length > 0 && { images }),
    };
    this.#open.push(...calls);
    if (isSaid(message)) this.messages.push(message);
  }

  #result(id: string, name: string, content: string): void {
    const call = this.#open.find((one) => one.id === id) ??
      this.#open.find((one) => one.name === name) ?? { id, name };
    this.#open = this.#open.filter((one) => one !== call);
    this.messages.push({ role: 'tool', content, call: { id: call.id, name: call.name } });
  }
}

/** The tools of a request of any wire, as Chat Completions take them. Those that a provider runs itself are left out. */
function chatTools(body: unknown): readonly object[] {
  if (!isObject(body)) return [];
  const config = body['toolConfig'];
  const list = isObject(config) && Array.isArray(config['tools']) ? config['tools'] : body['tools'];
  if (!Array.isArray(list)) return [];
  return list.filter(isObject).flatMap((tool): readonly object[] => {
    const declared = tool['functionDeclarations'] ?? tool['function_declarations'];
    if (Array.isArray(declared))
      return declared
        .filter(isObject)
        .map((one) => chatTool(one, one['parametersJsonSchema'] ?? inLowerCase(one['parameters'])));
    if (isObject(tool['toolSpec'])) {
      const schema = tool['toolSpec']['inputSchema'];
      return [chatTool(tool['toolSpec'], isObject(schema) ? schema['json'] : undefined)];
    }
    if (tool['type'] === 'function' && isObject(tool['function'])) return [tool];
    if (tool['type'] === 'function') return [chatTool(tool, tool['parameters'])];
    return tool['input_schema'] === undefined ? [] : [chatTool(tool, tool['input_schema'])];
  });
}

function chatTool({ name, description, strict }: Json, parameters: unknown): object {
  return {
    type: 'function',
    function: {
      name,
      ...(description !== undefined && { description }),
      ...(parameters !== undefined && { parameters }),
      ...(typeof strict === 'boolean' && { strict }),
    },
  };
}

/** Gemini's schemas may name types in capitals: `STRING`. */
function inLowerCase(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(inLowerCase);
  if (!isObject(schema)) return schema;
  return Object.fromEntries(
    Object.entries(schema).map(([name, value]) => [
      name,
      name === 'type' && typeof value === 'string' ? value.toLowerCase() : inLowerCase(value),
    ]),
  );
}
