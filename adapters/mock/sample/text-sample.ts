import type { JsonObject } from '../json-value.ts';
import { samplePattern } from './pattern-sample.ts';

const maxLength = 400;

const formats: Readonly<Record<string, string>> = {
  'date-time': '2025-01-01T00:00:00Z',
  date: '2025-01-01',
  time: '00:00:00Z',
  duration: 'P1D',
  email: 'mock@example.com',
  'idn-email': 'mock@example.com',
  hostname: 'example.com',
  'idn-hostname': 'example.com',
  ipv4: '192.0.2.1',
  ipv6: '2001:db8::1',
  uri: 'https://example.com/',
  'uri-reference': '/mock',
  iri: 'https://example.com/',
  uuid: '00000000-0000-4000-8000-000000000000',
  'json-pointer': '/mock',
  regex: 'mock',
};

/** A text that satisfies `format`, or `pattern`, and the lengths of a string schema; `variant` tells texts of one list apart. */
export function sampleText(schema: JsonObject, variant: number): string {
  const format = typeof schema['format'] === 'string' ? formats[schema['format']] : undefined;
  if (format !== undefined) return format;
  const least = bound(schema['minLength'], 0);
  const most = bound(schema['maxLength'], maxLength);
  if (typeof schema['pattern'] === 'string') {
    const matching = sampleOfLength(schema['pattern'], least);
    if (matching !== undefined) return matching;
  }
  const word = variant === 0 ? 'mock' : `mock${variant}`;
  // The end is kept: there stands the number that tells one variant from another.
  const padded = word.padStart(least, 'm');
  return padded.slice(Math.max(0, padded.length - most));
}

function sampleOfLength(pattern: string, least: number): string | undefined {
  for (let repeats = 0; repeats <= maxLength; repeats = repeats * 2 + 1) {
    const text = samplePattern(pattern, repeats);
    if (text === undefined || text.length >= least) return text;
  }
  return undefined;
}

function bound(value: unknown, fallback: number): number {
  return typeof value === 'number' && value >= 0 ? Math.min(value, maxLength) : fallback;
}
