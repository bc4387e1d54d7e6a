import { GatewayError } from '../errors/gateway-error.ts';

/** How the log knows a client that did not wait for its whole answer. */
export function clientLeft(): GatewayError {
  return new GatewayError('client_closed', 'The client left before its answer was complete.');
}

/** How the log knows a client that accepted no byte for too long and was cut. */
export function clientStalled(): GatewayError {
  return new GatewayError('client_stalled', 'The client stopped reading its answer.');
}
