import { asObject, type JsonObject } from '../../../adapters/dialects/json-reading.ts';

/** Notes what is wrong with a request. */
export class Violations {
  readonly found: string[] = [];

  expect(right: boolean, otherwise: string): void {
    if (!right) this.found.push(otherwise);
  }

  /** Only these members are known to the wire. */
  only(value: JsonObject, known: ReadonlySet<string>, where: string): void {
    for (const name of Object.keys(value)) this.expect(known.has(name), `${where}: unknown member "${name}"`);
  }
}

/** A base64 text that says the same when it is read and written again. */
export function isBase64(value: unknown): boolean {
  return (
    typeof value === 'string' && value !== '' && Buffer.from(value, 'base64').toString('base64') === value
  );
}

/** A JSON text of an object. */
export function isJsonObjectText(value: unknown): boolean {
  if (typeof value !== 'string') return false;
  try {
    return asObject(JSON.parse(value)) !== undefined;
  } catch {
    return false;
  }
}
