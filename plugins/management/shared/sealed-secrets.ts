import { headersOf } from '../../../core/organisation/mcp-address.ts';
import type { GivenConfigurations } from '../../../core/organisation/integration-configurations.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import { secretContext, type SecretBox } from '../../../core/ports/secret-managers.ts';
import type { Mistake } from '../../../core/base/json.ts';

/** Secret values by field: `key`, `configurations.<option>`, `models.<slug>.headers`. */
export type PlainSecrets = Readonly<Record<string, string>>;

/** Stands for the hidden part of a masked secret. */
const mark = '…';

/** Secrets of records: sealed in the store, masked in replies. */
export const sealedSecrets = {
  mark,
  mask: maskOf,
  seal: sealSecrets,
  open: openSecrets,
  shown: shownSecrets,
  maskedHeaders,
  unmasked,
  unmaskedConfigurations,
  unmaskedHeaders,
};

const shownFrom = 16;

/** A masked secret: its first and last two letters, or only the mark when it is shorter than 16 characters. */
function maskOf(text: string): string {
  return text.length < shownFrom ? mark : `${text.slice(0, 2)}${mark}${text.slice(-2)}`;
}

/** The sealed secrets of a record, for the store. */
function sealSecrets(box: SecretBox, recordId: string, plain: PlainSecrets): PlainSecrets {
  return Object.fromEntries(
    Object.entries(plain).map(([field, text]) => [field, box.seal(text, secretContext(recordId, field))]),
  );
}

/** The opened secrets of a record. Throws `internal` when the key that sealed them is missing. */
function openSecrets(box: SecretBox, { id, secrets }: StoredRecord): PlainSecrets {
  return Object.fromEntries(
    Object.entries(secrets).map(([field, sealed]) => [field, box.open(sealed, secretContext(id, field))]),
  );
}

/**
 * The same for answers: secrets of a record that a file manages are empty, so that their mask shows no letters; headers
 * keep their names.
 */
function shownSecrets(box: SecretBox, record: StoredRecord): PlainSecrets {
  const plain = openSecrets(box, record);
  if (record.managedBy !== 'file') return plain;
  return Object.fromEntries(
    Object.entries(plain).map(([field, text]) => [field, field.endsWith('.headers') ? namesOnly(text) : '']),
  );
}

function namesOnly(headers: string): string {
  return JSON.stringify(Object.fromEntries(Object.keys(headersOf(headers)).map((name) => [name, ''])));
}

/** Headers with their values masked. */
function maskedHeaders(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, maskOf(value)]));
}

/**
 * Clients read a record, change it and send it back: a secret equal to its mask keeps its stored value. Any other
 * masked value is added to `mistakes`.
 */
function unmasked(given: string, before: string | undefined, mistakes: Mistake[], path: string): string {
  if (!given.includes(mark)) return given;
  if (before !== undefined && given === maskOf(before)) return before;
  mistakes.push({ path, message: 'is what answers show of another secret; give the secret itself' });
  return given;
}

/** `unmasked` for all secrets in settings. */
function unmaskedConfigurations(
  given: GivenConfigurations,
  before: PlainSecrets,
  mistakes: Mistake[],
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
function unmaskedHeaders(
  given: Readonly<Record<string, string>>,
  before: Readonly<Record<string, string>>,
  mistakes: Mistake[],
  path: string,
): Record<string, string> {
  return Object.fromEntries(
    Object.entries(given).map(([name, value]) => [
      name,
      unmasked(value, Object.hasOwn(before, name) ? before[name] : undefined, mistakes, `${path}/${name}`),
    ]),
  );
}
