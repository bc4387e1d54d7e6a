import { GatewayError } from '../../core/errors/gateway-error.ts';

const mostBytes = 1024 * 1024;

/** Length of a record's data as JSON, in bytes. Refuses what is longer than 1 MiB (`body_too_large`). */
export function sizeOfData(data: object): number {
  const size = Buffer.byteLength(JSON.stringify(data));
  if (size <= mostBytes) return size;
  throw new GatewayError(
    'body_too_large',
    `The record has ${size} bytes of JSON; ${mostBytes} (1 MiB) can be stored. Make it smaller, or several of it.`,
  );
}
