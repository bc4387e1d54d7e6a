import type { DeploymentData } from '../../core/ports/record-kinds.ts';
import { refusedBody } from './refused-body.ts';

/** JSON as records hold it. */
export type PlainObject = DeploymentData['config'];

/**
 * An object of a body as it is stored. Throws `invalid_request` for whole numbers beyond 2^53, which would lose digits;
 * `pointer` is its place in the body.
 */
export function plainObject(value: Readonly<Record<string, unknown>>, pointer: string): PlainObject {
  return plainValue(value, pointer) as PlainObject;
}

/** The same for a value of any kind but undefined. */
export function plainValue(value: unknown, pointer: string): unknown {
  const text = JSON.stringify(value, (name, member: unknown) => {
    if (typeof member !== 'bigint') return member;
    const at = name === '' ? '' : ` at "${name}"`;
    const message = `holds ${member}${at}, and whole numbers beyond 2^53 cannot be kept; send it as a text`;
    throw refusedBody([{ path: pointer, message }]);
  });
  return JSON.parse(text) as unknown;
}
