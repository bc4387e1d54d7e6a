import type { Clock } from '../../core/ports/clock.ts';
import type { Log, LogLevel } from '../../core/ports/log.ts';
import { inspect } from 'node:util';

const maxLength = 4_096;
// C0 and C1 controls, DEL, and the two line separators of Unicode: they could break a line or control a terminal.
const controls = /[\p{Cc}\u2028\u2029]/gu;
const bare = /^[^\s"=\\\p{Cc}]+$/u;
const shortEscapes: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** The text on one line: control characters become escapes that JSON also understands. */
function escapeControls(text: string): string {
  return text.replace(
    controls,
    (character) => shortEscapes[character] ?? `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** `key=value`, quoted where the value holds spaces, quotes or equal signs. */
function formatField(key: string, value: unknown): string {
  return `${quoted(key)}=${quoted(valueText(value))}`;
}

/** An error in one line: name, message, the place that raised it, and its cause's name and message. */
function describeError(error: Error): string {
  const place = /^\s*at .*$/m.exec(error.stack ?? '')?.[0].trim();
  const cause = error.cause instanceof Error ? ` (cause: ${error.cause.name}: ${error.cause.message})` : '';
  return cut(`${error.name}: ${error.message}${cause}${place === undefined ? '' : ` ${place}`}`);
}

/** The value in a form for JSON, cut to a bound: strings, numbers and booleans unchanged, the rest as text. */
function plainValue(value: unknown): unknown {
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
    // Cyclic, or a member throws; `inspect` handles both.
  }
  return cut(inspect(value, { depth: 3, breakLength: Infinity, maxArrayLength: 50, maxStringLength: 500 }));
}

function quoted(text: string): string {
  return bare.test(text) ? text : escapeControls(JSON.stringify(text));
}

function cut(text: string): string {
  return text.length > maxLength ? `${text.slice(0, maxLength)}…` : text;
}

interface LineLogOptions {
  /** Lines below this level are left out. */
  readonly level: LogLevel;
  /** `text` is for people: time, level, message, `key=value`. `json` is one object per line. */
  readonly format: 'text' | 'json';
  /** Takes one line with its line break. */
  readonly write: (line: string) => void;
  readonly clock: Clock;
}

type Fields = Readonly<Record<string, unknown>>;

const ranks: Readonly<Record<LogLevel, number>> = { debug: 0, info: 1, warn: 2, error: 3 };
const maxMessageLength = 8_192;
const none: Fields = {};

/**
 * The gateway's own log: one event, one line, for any message and fields. Never throws; a line that cannot be written
 * is lost. Values are cut at 4,096 characters, messages at 8,192.
 */
export function createLog(options: LineLogOptions): Log {
  return new LineLog(options, none);
}

class LineLog implements Log {
  readonly #options: LineLogOptions;
  readonly #lowest: number;
  readonly #fields: Fields;

  constructor(options: LineLogOptions, fields: Fields) {
    this.#options = options;
    this.#lowest = ranks[options.level];
    this.#fields = fields;
  }

  debug(message: string, fields: Fields = none): void {
    this.#line('debug', message, fields);
  }

  info(message: string, fields: Fields = none): void {
    this.#line('info', message, fields);
  }

  warn(message: string, fields: Fields = none): void {
    this.#line('warn', message, fields);
  }

  error(message: string, fields: Fields = none): void {
    this.#line('error', message, fields);
  }

  child(fields: Fields): Log {
    return new LineLog(this.#options, { ...this.#fields, ...fields });
  }

  #line(level: LogLevel, message: string, fields: Fields): void {
    if (ranks[level] < this.#lowest) return;
    try {
      const time = new Date(this.#options.clock.now()).toISOString();
      const text = String(message).slice(0, maxMessageLength);
      const all = { ...this.#fields, ...fields };
      const format = this.#options.format === 'json' ? jsonLine : textLine;
      this.#options.write(`${format(time, level, text, all)}\n`);
    } catch {
      // There is no other place to report it.
    }
  }
}

function textLine(time: string, level: LogLevel, message: string, fields: Fields): string {
  let line = `${time} ${level.padEnd(5)} ${escapeControls(message)}`;
  for (const key of Object.keys(fields)) {
    if (fields[key] !== undefined) line += ` ${formatField(key, fields[key])}`;
  }
  return line;
}

function jsonLine(time: string, level: LogLevel, message: string, fields: Fields): string {
  const record: Record<string, unknown> = { time, level, message };
  for (const key of Object.keys(fields)) {
    const value = fields[key];
    // A field never replaces the line's own members.
    const name = key in record ? `${key}_` : key;
    record[name] = value instanceof Error ? describeError(value) : plainValue(value);
  }
  return escapeControls(JSON.stringify(record));
}
