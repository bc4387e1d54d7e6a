import type { AttributeValue, SpanAttributes } from './otlp-spans.ts';

const maxTokens = 2 ** 31;

/** Reads attributes by name, each by its present name and those that it had before; remembers which ones it was asked for. */
export class SpanReader {
  /** Names that were asked for: what they say stands in columns. */
  readonly asked = new Set<string>();
  readonly #attributes: SpanAttributes;

  constructor(attributes: SpanAttributes) {
    this.#attributes = attributes;
  }

  text(...names: string[]): string {
    const found = this.#first(names, (value) => typeof value === 'string' && value !== '');
    return typeof found === 'string' ? found : '';
  }

  /** Finite and not below zero; numbers in texts count. */
  number(...names: string[]): number | undefined {
    const found = this.#first(names, (value) => isCount(value));
    return found === undefined ? undefined : Number(found);
  }

  /** A whole number that a column holds. */
  tokens(...names: string[]): number | undefined {
    const found = this.number(...names);
    return found === undefined ? undefined : Math.min(maxTokens, Math.trunc(found));
  }

  flag(...names: string[]): boolean {
    return this.#first(names, (value) => value === true || value === 'true') !== undefined;
  }

  /** The texts of a list; a text is a list of one. */
  list(...names: string[]): readonly string[] {
    const found = this.#first(names, () => true);
    if (typeof found === 'string') return [found];
    return Array.isArray(found) ? found.filter((item) => typeof item === 'string') : [];
  }

  #first(names: readonly string[], suits: (value: AttributeValue) => boolean): AttributeValue | undefined {
    let found: AttributeValue | undefined;
    for (const name of names) {
      this.asked.add(name);
      const value = this.#attributes.get(name);
      if (found === undefined && value !== undefined && suits(value)) found = value;
    }
    return found;
  }
}

function isCount(value: AttributeValue): boolean {
  if (typeof value !== 'number' && (typeof value !== 'string' || value.trim() === '')) return false;
  const number = Number(value);
  return Number.isFinite(number) && number >= 0;
}
