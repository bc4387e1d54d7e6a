// What became of each setting of an imported configuration.
import { childPointer, isJsonObject } from '../../core/base/json.ts';
import type { Source, SourcePath, SourcePlace } from './source.ts';

/** `mapped`: means the same. `changed`: means something else, as the message says. `missing`: has no counterpart. */
type Verdict = 'mapped' | 'changed' | 'missing';

/** What became of one setting. */
interface ReportLine extends SourcePlace {
  readonly verdict: Verdict;
  readonly message: string;
}

/** An environment variable that the written configuration needs. */
interface NeededVariable {
  readonly name: string;
  /** True when the source holds the value itself, at this place: the value is not copied. */
  readonly isCopiedByHand: boolean;
  readonly place: SourcePlace;
}

/** The report of an import, as `--report` writes it. */
interface ReportFile {
  readonly summary: Readonly<Record<Verdict, number>>;
  readonly variables: readonly NeededVariable[];
  readonly lines: readonly ReportLine[];
}

/** Adds lines about one source. */
export type SourceReport = Readonly<Record<Verdict, (at: SourcePath, message: string) => void>>;

/** Collects lines; every value of the source that no line is about becomes one. */
export class Report {
  readonly #lines: (ReportLine & { readonly source: Source })[] = [];
  readonly #variables = new Map<string, NeededVariable>();

  /** Adds lines about one source; its places are paths from the root. */
  of(source: Source): SourceReport {
    return {
      mapped: (at, message) => this.#add('mapped', source, at, message),
      changed: (at, message) => this.#add('changed', source, at, message),
      missing: (at, message) => this.#add('missing', source, at, message),
    };
  }

  /** Notes a variable once, at its first place. */
  variable(source: Source, at: SourcePath, name: string, isCopiedByHand = false): void {
    const known = this.#variables.get(name);
    if (known === undefined || (isCopiedByHand && !known.isCopiedByHand))
      this.#variables.set(name, { name, isCopiedByHand, place: source.place(at) });
  }

  isNeeded(variable: string): boolean {
    return this.#variables.has(variable);
  }

  /** Adds a line for each value that nothing was said about. Of these sections each member has a line of its own. */
  addForgotten(source: Source, sections: readonly string[] = []): void {
    const told = this.#lines.filter((line) => line.source === source).map(({ pointer }) => pointer);
    const isTold = (pointer: string): boolean =>
      told.some((one) => pointer === one || one === '' || pointer.startsWith(`${one}/`));
    const isAbove = (pointer: string): boolean => told.some((one) => one.startsWith(`${pointer}/`));
    const walk = (value: unknown, at: SourcePath, pointer: string): void => {
      if (at.length > 0 && isTold(pointer)) return;
      const children = childrenOf(value);
      // One line for a whole object when no line is about a part of it.
      const isSection = at.length === 1 && sections.includes(String(at[0]));
      if (at.length > 0 && (children.length === 0 || (!isAbove(pointer) && !isSection))) {
        this.#add('missing', source, at, 'is not known to the importer, and is left out');
        return;
      }
      for (const [key, child] of children) walk(child, [...at, key], childPointer(pointer, key));
    };
    // Lines about the whole document are notes.
    if (told.includes('')) told.splice(0, told.length, ...told.filter((one) => one !== ''));
    walk(source.value, [], '');
  }

  file(): ReportFile {
    const lines = this.#sorted().map(({ verdict, file, line, column, pointer, message }) => ({
      ...{ verdict, file, line, column, pointer, message },
    }));
    const count = (verdict: Verdict): number => lines.filter((one) => one.verdict === verdict).length;
    return {
      summary: { mapped: count('mapped'), changed: count('changed'), missing: count('missing') },
      variables: [...this.#variables.values()],
      lines,
    };
  }

  /** The report for a terminal. */
  text(): string {
    const { summary, variables, lines } = this.file();
    const shown = lines.map(
      ({ verdict, file, line, column, pointer, message }) =>
        `${file}:${line}:${column}: ${verdict}: ${pointer || '/'}: ${message}`,
    );
    const needed = variables.map(({ name, isCopiedByHand, place }) =>
      isCopiedByHand
        ? `  ${name}: the value at ${place.file}:${place.line}:${place.column}, which is not copied`
        : `  ${name}`,
    );
    return [
      ...shown,
      '',
      `${summary.mapped} mapped, ${summary.changed} with another meaning, ${summary.missing} without a counterpart.`,
      ...(needed.length > 0 ? ['Set these environment variables for the gateway:', ...needed] : []),
    ].join('\n');
  }

  #add(verdict: Verdict, source: Source, at: SourcePath, message: string): void {
    this.#lines.push({ verdict, message, source, ...source.place(at) });
  }

  #sorted(): readonly ReportLine[] {
    return this.#lines.toSorted(
      (one, other) =>
        one.file.localeCompare(other.file) || one.line - other.line || one.column - other.column,
    );
  }
}

function childrenOf(value: unknown): readonly (readonly [string | number, unknown])[] {
  if (Array.isArray(value)) return value.map((item: unknown, index) => [index, item] as const);
  return isJsonObject(value) ? Object.entries(value) : [];
}
