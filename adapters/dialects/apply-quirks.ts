import type { EncodeReport } from '../../core/dialects/canonical/encode-report.ts';
import type { Quirks } from '../../core/dialects/host-facts.ts';
import type { JsonObject } from './json-reading.ts';

/** Writes a body as a host wants it that departs from its dialect: other values, members left out (and reported), other names. */
export function applyQuirks(body: JsonObject, quirks: Quirks, report: EncodeReport): void {
  for (const [name, values] of Object.entries(quirks.values ?? {})) {
    const value = body[name];
    if (typeof value === 'string' && Object.hasOwn(values, value)) body[name] = values[value];
  }
  for (const name of quirks.drop ?? []) {
    if (!Object.hasOwn(body, name)) continue;
    delete body[name];
    report.drop(name);
  }
  for (const [name, other] of Object.entries(quirks.rename ?? {})) {
    if (other === name || !Object.hasOwn(body, name)) continue;
    body[other] = body[name];
    delete body[name];
  }
}
