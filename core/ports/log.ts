export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

/** The gateway's own log (not the request log): one line per event on standard error. Never pass secrets. */
export interface Log {
  debug(message: string, fields?: Readonly<Record<string, unknown>>): void;
  info(message: string, fields?: Readonly<Record<string, unknown>>): void;
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void;
  error(message: string, fields?: Readonly<Record<string, unknown>>): void;
  /** A log that adds these fields to every line. */
  child(fields: Readonly<Record<string, unknown>>): Log;
}
