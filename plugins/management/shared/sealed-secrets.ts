import type { GivenConfigurations } from '../../../core/organisation/integration-configurations.ts';
import { parseJson } from '../../../core/base/json.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import { secretContext, type SecretBox } from '../../../core/ports/secret-managers.ts';
import type { BodyMistake } from './fields.ts';

/** Secret values by field: `key`, `configurations.<option>`, `models.<slug>.headers`. */
export type PlainSecrets = Readonly<Record<string, string>>;

/** Stands in what answers show of a secret for the rest of it. */
export const mark = '…';
const shownFrom = 16;

/** What answers show of a secret: its first and last letters, when it is long enough to have others. */
export function maskOf(text: string): string {
  return text.length < shownFrom ? mark : `${text.slice(0, 2)}${mark}${text.slice(-2)}`;
}

/** What is stored of the secrets of a record. */
export function sealSecrets(box: SecretBox, recordId: string, plain: PlainSecrets): PlainSecrets {
  return Object.fromEntries(
    Object.entries(plain).map(([field, text]) => [field, box.seal(text, secretContext(recordId, field))]),
  );
}

/** The secrets of a record. Throws `internal` when the key that sealed them is not there. */
export function openSecrets(box: SecretBox, { id, secrets }: StoredRecord): PlainSecrets {
  return Object.fromEntries(
    Object.entries(secrets).map(([field, sealed]) => [field, box.open(sealed, secretContext(id, field))]),
  );
}

/**
 * The same for showing them: of what the configuration owns not even the first and last letters. Masked, each value is
 * the mark alone; headers keep their names.
 */
export function shownSecrets(box: SecretBox, record: StoredRecord): PlainSecrets {
  const plain = openSecrets(box, record);
  if (record.managedBy !== 'file') return plain;
  return Object.fromEntries(
    Object.entries(plain).map(([field, text]) => [field, field.endsWith('.headers') ? namesOnly(text) : '']),
  );
}

function namesOnly(headers: string): string {
  return JSON.stringify(Object.fromEntries(Object.keys(headersOf(headers)).map((name) => [name, ''])));
}

/** The headers that one secret holds. */
export function headersOf(text: string | undefined): Readonly<Record<string, string>> {
  const found = text === undefined ? undefined : parseJson(text);
  if (typeof found !== 'object' || found === null || Array.isArray(found)) return {};
  return Object.fromEntries(
    Object.entries(found).filter((pair): pair is [string, string] => typeof pair[1] === 'string'),
  );
}

/** Headers with their values masked. */
export function maskedHeaders(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, maskOf(value)]));
}

/**
 * Clients read a record, change something and send it back: a secret that comes as it was shown stays what it is.
 * `mistakes` gets masked values that show something else.
 */
export function unmasked(
  given: string,
  before: string | undefined,
  mistakes: BodyMistake[],
  path: string,
): string {
  if (!given.includes(mark)) return given;
  if (before !== undefined && given === maskOf(before)) return before;
  mistakes.push({ path, message: 'is what answers show of another secret; give the secret itself' });
  return given;
}

/** `unmasked` for all secrets among settings. */
export function unmaskedConfigurations(
  given: GivenConfigurations,
  before: PlainSecrets,
  mistakes: BodyMistake[],
): GivenConfigurations {
  const whole: Record<string, unknown> = { ...given };
  for (const [name, value] of Object.entries(given)) {
    const path = `/configurations/${name}`;
    if (typeof value === 'string')
      whole[name] = unmasked(value, before[`configurations.${name}`], mistakes, path);
  }
  if (given.custom_headers === undefined) return whole;
  const headers = headersOf(before['configurations.headers']);
  return {
    ...whole,
    custom_headers: unmaskedHeaders(
      given.custom_headers,
      headers,
      mistakes,
      '/configurations/custom_headers',
    ),
  };
}

/** `unmasked` for every header. */
export function unmaskedHeaders(
  given: Readonly<Record<string, string>>,
  before: Readonly<Record<string, string>>,
  mistakes: BodyMistake[],
  path: string,
): Record<string, string> {
  return Object.fromEntries(
    Object.entries(given).map(([name, value]) => [
      name,
      unmasked(value, Object.hasOwn(before, name) ? before[name] : undefined, mistakes, `${path}/${name}`),
    ]),
  );
}
