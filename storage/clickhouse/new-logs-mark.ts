import { GatewayError } from '../../core/errors/gateway-error.ts';

/** How far somebody who follows the log has come. */
export interface Mark {
  /** When the newest row that was looked at came into the store; milliseconds since the epoch. */
  readonly newest: number;
  /** `keyOf` the rows of the last seconds before it that have been told. */
  readonly told: ReadonlySet<string>;
}

/** Random in ids of every kind, and enough to tell some thousand of them apart. */
const keyDigits = 12;
const keyBytes = keyDigits / 2;
const written = /^(\d{1,16})(?:~([\w-]*))?$/;

/** By what a row is remembered. */
export function keyOf(id: string): string {
  return id.slice(-keyDigits);
}

export function writeMark({ newest, told }: Mark): string {
  return told.size === 0
    ? String(newest)
    : `${newest}~${Buffer.from([...told].join(''), 'hex').toString('base64url')}`;
}

/** Throws `invalid_request` for what `writeMark` has not written. */
export function readMark(text: string): Mark {
  const [, newest, told = ''] = written.exec(text) ?? [];
  if (newest === undefined) {
    const message = 'There is no such place in the log to go on from. Begin anew, without it.';
    throw new GatewayError('invalid_request', message, { param: 'since' });
  }
  const bytes = Buffer.from(told, 'base64url');
  const keys = Array.from({ length: Math.floor(bytes.length / keyBytes) }, (_, index) =>
    bytes.toString('hex', index * keyBytes, (index + 1) * keyBytes),
  );
  return { newest: Number(newest), told: new Set(keys) };
}
