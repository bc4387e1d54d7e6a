import { childPointer } from '../../base/pointer.ts';
import { providerFields } from '../../providers/provider-fields.ts';
import type { OwnedFile } from './owned-file.ts';

/** What stands for a secret, and for what came from a variable. */
const hidden = '***';
const secretNames: ReadonlySet<string> = new Set([
  'api_key',
  ...providerFields.filter(({ secret }) => secret).map(({ name }) => name),
]);
const withCredentials = /^[a-z][a-z0-9+.-]*:\/\/[^/\s]*@/i;

/**
 * A copy of what a file says at `pointer`, fit for being shown: without credentials, and without anything that was
 * put together from variables.
 */
export function shownValue<T>(value: T, pointer: string, source: OwnedFile['source']): T {
  return shown(value, pointer, source) as T;
}

function shown(value: unknown, pointer: string, source: OwnedFile['source']): unknown {
  if (Array.isArray(value))
    return value.map((item: unknown, index) => shown(item, childPointer(pointer, index), source));
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(
      Object.entries(value).map(([name, member]) => [
        name,
        secretNames.has(name) ? hidden : shown(member, childPointer(pointer, name), source),
      ]),
    );
  }
  if (source?.origin(pointer) !== undefined) return hidden;
  return typeof value === 'string' && withCredentials.test(value) ? hidden : value;
}
