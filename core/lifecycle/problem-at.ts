import type { ConfigSource, Place } from '../config/config-source.ts';
import type { Problem } from '../config/problem.ts';
import { didYouMean, quoted } from '../base/did-you-mean.ts';

type Issues = readonly { readonly path: string; readonly message: string }[];

/** Gathers the problems of a configuration's records, each at its place; values of variables are never quoted. */
export class OwnedProblems {
  readonly found: Problem[] = [];
  readonly #source: ConfigSource;
  /** Pointers by identities that must be unique. */
  readonly #taken = new Map<string, string>();

  constructor(source: ConfigSource) {
    this.#source = source;
  }

  /** Refuses a duplicate, naming the first place. */
  once(identity: string, pointer: string, message: string): void {
    const first = this.#taken.get(identity);
    if (first === undefined) return void this.#taken.set(identity, pointer);
    const { file, line, column } = this.#source.locate(first);
    this.refuse(pointer, `${message}; the first stands at ${file}:${line}:${column}`);
  }

  /** Refuses values that the schema lets through; each message is put behind the name of its field. */
  refuseAll(issues: Issues, base = ''): void {
    for (const { path, message } of issues) {
      const [parent = '', last = ''] = path.split('/').slice(-2);
      const subject = /^\d+$/.test(last) ? `${quoted(parent)}, item ${Number(last) + 1}` : quoted(last);
      this.refuse(`${base}${path}`, `${subject}: ${message}`);
    }
  }

  refuse(pointer: string, message: string): void {
    this.#add(pointer, message, 'error');
  }

  /** For settings without an effect. */
  warn(pointer: string, message: string): void {
    this.#add(pointer, message, 'warning');
  }

  /** For settings that cannot be checked here. */
  note(pointer: string, message: string): void {
    this.#add(pointer, message, 'note');
  }

  #add(pointer: string, message: string, severity: NonNullable<Problem['severity']>): void {
    const origin = this.#source.origin(pointer);
    // A message quotes the wrong value; values of variables must not be shown.
    const text =
      origin === undefined || pointer.endsWith('/key') || pointer.endsWith('/key_sha256')
        ? message
        : `what ${origin.names.join(' and ')} stands for cannot be used here`;
    const problem = problemAt(this.#source.locate(pointer), pointer, text);
    this.found.push(severity === 'error' ? problem : { ...problem, severity });
  }
}

/** A problem at a place of the configuration or of a plugin's source. */
export function problemAt(place: Place, path: string, message: string): Problem {
  return { file: place.file, line: place.line, column: place.column, path, message };
}

/** `; did you mean "auth"?`, or nothing when no candidate is close. For the middle or end of a message. */
export function suggestion(word: string, candidates: Iterable<string>): string {
  const close = didYouMean(word, candidates);
  return close === undefined ? '' : `; did you mean "${close}"?`;
}
