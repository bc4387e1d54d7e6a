import type { DeploymentData } from '../../core/ports/record-kinds.ts';
import { refusedBody } from './refused-body.ts';

/** JSON as records hold it. */
export type PlainObject = DeploymentData['config'];

/**
 * An object of a body as it is stored. Throws `invalid_request` for whole numbers beyond 2^53, which would lose digits;
 * `pointer` is its place in the body.
 */
export function plainObject(value: Readonly<Record<string, unknown>>, pointer: string): PlainObject {
  const text = JSON.stringify(value, (name, member: unknown) => {
    if (typeof member !== 'bigint') return member;
    const message = `holds ${member} at "${name}", and whole numbers beyond 2^53 cannot be kept; send it as a text`;
    throw refusedBody([{ path: pointer, message }]);
  });
  return JSON.parse(text) as PlainObject;
}

/** A list, too. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}
