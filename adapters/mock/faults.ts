import { failureWords, faultWords, type FaultName, type Faults } from './fault-words.ts';
import { MockProblem } from './problem.ts';

const modelWithFaults = /^mock(?:-[a-z0-9.-]+)?:(.*)$/is;

/** Where a text with faults stood, for the error that it may cause. */
export type FaultSource = 'base_url' | 'x-mock-faults' | 'model';

/**
 * Reads `latency_ms=200,status=503` (also separated by `&`, as in a base URL's query). Throws a 400 that names the
 * known words for a word that is none of them, and the allowed values for a value that is out of bounds.
 */
export function parseFaults(text: string, source: FaultSource): Faults {
  const found: Record<string, number | string | true> = {};
  for (const part of text.split(/[&,]/)) {
    const [word = '', value = ''] = splitOnce(part.trim(), '=');
    if (word === '' && value === '') continue;
    if (!Object.hasOwn(faultWords, word)) {
      const known = Object.keys(faultWords).join(', ');
      throw refused(source, `knows no fault \`${word.slice(0, 60)}\`. Known: ${known}.`);
    }
    found[word] = readValue(word as FaultName, value, source);
  }
  return found;
}

/** The part of a model's name that asks for faults: what follows the first colon of `mock:…` or `mock-anything:…`. */
export function faultsInModel(model: string): string {
  return modelWithFaults.exec(model)?.[1] ?? '';
}

/** The same faults without those that make a request fail. */
export function withoutFailures(faults: Faults): Faults {
  const kept: Record<string, unknown> = { ...faults };
  for (const word of failureWords) delete kept[word];
  return kept;
}

/** True when one of the words that make a request fail was given. */
export function hasFailure(faults: Faults): boolean {
  return failureWords.some((word) => word !== 'retry_after' && faults[word] !== undefined);
}

function readValue(word: FaultName, value: string, source: FaultSource): number | string | true {
  const rule = faultWords[word];
  const given = `\`${word}=${value.slice(0, 60)}\``;
  switch (rule.kind) {
    case 'flag':
      if (value === '' || value === '1' || value === 'true') return true;
      throw refused(source, `cannot use ${given}: write \`${word}\` alone.`);
    case 'choice':
      if (rule.values.some((allowed) => allowed === value)) return value;
      throw refused(source, `cannot use ${given}: allowed are ${rule.values.join(', ')}.`);
    case 'share': {
      const share = /^(\d|\d?\.\d{1,9}|\d\.)$/.test(value) ? Number(value) : NaN;
      if (share >= 0 && share <= 1) return share;
      throw refused(source, `cannot use ${given}: a number from 0 to 1 is needed.`);
    }
    case 'integer': {
      const number = /^\d{1,9}$/.test(value) ? Number(value) : NaN;
      if (number >= rule.minimum && number <= rule.maximum) return number;
      throw refused(
        source,
        `cannot use ${given}: an integer from ${rule.minimum} to ${rule.maximum} is needed.`,
      );
    }
  }
}

function refused(source: FaultSource, sentence: string): MockProblem {
  const place = {
    base_url: "the provider's base_url",
    'x-mock-faults': 'header x-mock-faults',
    model: "the model's name",
  }[source];
  return new MockProblem(400, `The mock provider, told by ${place}, ${sentence}`, {
    param: source,
    code: 'unknown_fault',
  });
}

function splitOnce(text: string, separator: string): [string, string] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)];
}
