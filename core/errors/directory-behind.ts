import { GatewayError } from './gateway-error.ts';

/** The store is looked at again about so often. */
const retryAfterSeconds = '2';

/** The refusal of `what` is not known here while the directory is not `current`: it may exist, so it is worth another try. */
export function directoryBehind(what: string): GatewayError {
  return new GatewayError(
    'store_unavailable',
    `The ${what} is not known here, and the store that may know it cannot be read now. Try again in a moment.`,
    { headers: ['retry-after', retryAfterSeconds] },
  );
}
