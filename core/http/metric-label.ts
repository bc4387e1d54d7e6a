import type { Outcome } from '../pipeline/context.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import { callerKey } from '../pipeline/keys.ts';

/** A label of metrics whose values callers choose: so many are told apart, the rest is `other`. */
export interface MetricLabel {
  /** As Prometheus takes it. */
  readonly name: string;
  valueOf(exchange: Exchange, outcome: Outcome): string;
}

const prefix = 'metadata.';
/** Longer values would only be cut by those who read them. */
const maxLength = 128;

/** The labels that the configuration asks for (`model`, `config`, `api_key_name`, `metadata.<key>`), each bounded. */
export function metricLabels(wanted: readonly string[], maxValues: number): readonly MetricLabel[] {
  const names = new Set<string>();
  return wanted.map((one) => {
    const plain = one.replaceAll(/[^A-Za-z0-9_]/g, '_');
    let name = plain;
    for (let n = 2; names.has(name); n++) name = `${plain}_${n}`;
    names.add(name);
    return new BoundedLabel(name, one, maxValues);
  });
}

class BoundedLabel implements MetricLabel {
  readonly name: string;
  readonly #read: (exchange: Exchange) => string;
  /** A new value counts only with an answer: who invents models is refused by somebody. */
  readonly #needsSuccess: boolean;
  readonly #maxValues: number;
  readonly #known = new Set<string>(['']);

  constructor(name: string, wanted: string, maxValues: number) {
    this.name = name;
    this.#read = readerOf(wanted);
    this.#needsSuccess = wanted === 'model';
    // The empty value is always told apart.
    this.#maxValues = maxValues + 1;
  }

  valueOf(exchange: Exchange, outcome: Outcome): string {
    const value = this.#read(exchange);
    if (this.#known.has(value)) return value;
    if (this.#known.size >= this.#maxValues || value.length > maxLength) return 'other';
    if (this.#needsSuccess && outcome.status >= 400) return 'other';
    this.#known.add(value);
    return value;
  }
}

function readerOf(wanted: string): (exchange: Exchange) => string {
  if (wanted === 'model') return ({ facts }) => facts.modelAnswered || facts.modelRequested;
  if (wanted === 'config') return ({ facts }) => facts.config;
  if (wanted === 'api_key_name') return (exchange) => exchange.get(callerKey)?.name ?? '';
  const key = wanted.slice(prefix.length);
  return ({ facts: { metadata } }) => (Object.hasOwn(metadata, key) ? (metadata[key] ?? '') : '');
}
