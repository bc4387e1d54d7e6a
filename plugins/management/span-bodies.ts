import { clipText } from './reported-row.ts';
import type { BodyRow } from '../../core/ports/request-row.ts';
import type { AttributeValue, ReportedSpan, SpanAttributes } from './otlp-spans.ts';

/** As much as the `logger` keeps of a body at the most, in characters. */
const maxLength = 262_144;

const inputs = ['gen_ai.input.messages', 'gen_ai.prompt'];
const outputs = ['gen_ai.output.messages', 'gen_ai.completion'];
const system = 'gen_ai.system_instructions';
const tools = 'gen_ai.tool.definitions';
/** `gen_ai.prompt.0.role`, as older instrumentations write messages. */
const numbered = /^gen_ai\.(prompt|completion)\.(\d{1,3})\.([a-z][a-z_]{0,31})$/;
/** Numbered messages of one span that are read. */
const maxNumbered = 200;

/** Whether an attribute holds what was said to a model or by it. */
export function isContent(name: string): boolean {
  return (
    inputs.includes(name) ||
    outputs.includes(name) ||
    name === system ||
    name === tools ||
    numbered.test(name)
  );
}

/** What a span tells of the conversation, as bodies are logged; undefined when it tells nothing. */
export type SpanBodies = Pick<
  BodyRow,
  'request' | 'response' | 'request_truncated' | 'response_truncated' | 'log_format'
>;

/** Reads the conversation from the attributes of the span, or of its events. */
export function spanBodies(span: ReportedSpan): SpanBodies | undefined {
  const places = [span.attributes, ...span.events.map(({ attributes }) => attributes)];
  const messages = firstOf(places, inputs) ?? numberedOf(span.attributes, 'prompt');
  const answers = firstOf(places, outputs) ?? numberedOf(span.attributes, 'completion');
  const instructions = firstOf(places, [system]);
  if (messages === undefined && answers === undefined && instructions === undefined) return undefined;
  const model = span.attributes.get('gen_ai.request.model');
  const request = JSON.stringify({ model, system: instructions, messages, tools: firstOf(places, [tools]) });
  const response = answers === undefined ? '' : JSON.stringify({ messages: answers });
  return {
    request: clipText(request, maxLength),
    response: clipText(response, maxLength),
    request_truncated: request.length > maxLength,
    response_truncated: response.length > maxLength,
    log_format: 'json',
  };
}

/** The first that is there; a text that holds JSON is read. */
function firstOf(places: readonly SpanAttributes[], names: readonly string[]): unknown {
  for (const name of names) {
    for (const attributes of places) {
      const value = attributes.get(name);
      if (value !== undefined) return typeof value === 'string' ? parsed(value) : value;
    }
  }
  return undefined;
}

function parsed(text: string): unknown {
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

function numberedOf(attributes: SpanAttributes, kind: string): unknown {
  const messages = new Map<number, Record<string, AttributeValue>>();
  for (const [name, value] of attributes) {
    const match = numbered.exec(name);
    if (match === null || match[1] !== kind) continue;
    const index = Number(match[2]);
    let message = messages.get(index);
    if (message === undefined) {
      if (messages.size >= maxNumbered) continue;
      messages.set(index, (message = {}));
    }
    message[match[3] as string] = value;
  }
  if (messages.size === 0) return undefined;
  return [...messages].sort(([a], [b]) => a - b).map(([, message]) => message);
}
