import { inspect } from 'node:util';

const maxLength = 4_096;
// C0 and C1 controls, DEL, and the two line separators of Unicode: what could break a line or drive a terminal.
const controls = /[\p{Cc}\u2028\u2029]/gu;
const bare = /^[^\s"=\\\p{Cc}]+$/u;
const shortEscapes: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** The text on one line: control characters become escapes that JSON also understands. */
export function escapeControls(text: string): string {
  return text.replace(
    controls,
    (character) => shortEscapes[character] ?? `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** `key=value`, quoted where the value holds spaces, quotes or equal signs. */
export function formatField(key: string, value: unknown): string {
  return `${quoted(key)}=${quoted(valueText(value))}`;
}

/** An error in one line: name, message, the place that raised it, and its cause's name and message. */
export function describeError(error: Error): string {
  const place = /^\s*at .*$/m.exec(error.stack ?? '')?.[0].trim();
  const cause = error.cause instanceof Error ? ` (cause: ${error.cause.name}: ${error.cause.message})` : '';
  return cut(`${error.name}: ${error.message}${cause}${place === undefined ? '' : ` ${place}`}`);
}

/** The value as JSON can hold it, cut to a bound: strings, numbers and booleans as they are, the rest as text. */
export function plainValue(value: unknown): unknown {
  switch (typeof value) {
    case 'string':
      return cut(value);
    case 'number':
      return Number.isFinite(value) ? value : String(value);
    case 'boolean':
    case 'undefined':
      return value;
    default:
      return value === null ? null : valueText(value);
  }
}

function valueText(value: unknown): string {
  if (typeof value === 'string') return cut(value);
  if (value instanceof Error) return describeError(value);
  if (typeof value !== 'object' || value === null) return cut(String(value));
  try {
    const json: unknown = JSON.stringify(value, (_, member: unknown) =>
      typeof member === 'bigint' ? String(member) : member instanceof Error ? describeError(member) : member,
    );
    if (typeof json === 'string') return cut(json);
  } catch {
    // Cyclic, or a member refuses; `inspect` copes with both.
  }
  return cut(inspect(value, { depth: 3, breakLength: Infinity, maxArrayLength: 50, maxStringLength: 500 }));
}

function quoted(text: string): string {
  return bare.test(text) ? text : escapeControls(JSON.stringify(text));
}

function cut(text: string): string {
  return text.length > maxLength ? `${text.slice(0, maxLength)}…` : text;
}
