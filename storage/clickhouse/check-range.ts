import { GatewayError } from '../../core/errors/gateway-error.ts';

/** Throws `invalid_request` unless the value is a whole number from 0 to `max`. */
export function checkRange(name: string, value: number, max: number): void {
  if (Number.isInteger(value) && value >= 0 && value <= max) return;
  const message = `\`${name}\` must be a whole number from 0 to ${max}.`;
  throw new GatewayError('invalid_request', message, { param: name });
}
