import type { Clock } from '../../core/ports/clock.ts';
import type { Log, LogLevel } from '../../core/ports/log.ts';
import { describeError, escapeControls, formatField, plainValue } from './log-value.ts';

export interface LineLogOptions {
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
 * The gateway's own log: one event, one line, whatever the message or the fields hold. Never throws; a line that
 * cannot be written is lost. Values are cut at 4,096 characters, messages at 8,192.
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
      // There is nowhere left to tell.
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
    // A field never takes the place of the line's own members.
    const name = key in record ? `${key}_` : key;
    record[name] = value instanceof Error ? describeError(value) : plainValue(value);
  }
  return escapeControls(JSON.stringify(record));
}
