import type { IncomingMessage } from 'node:http';
import { GatewayError } from '../errors/gateway-error.ts';

/**
 * Why a request is refused that two servers read in two ways: one that matched pipelines by the first reading would
 * forward what the provider takes by the second. Undefined for every other request.
 *
 * A `#` never belongs in a request target (RFC 9112, 3.2), more than one Host is refused (3.2), and so is a
 * Transfer-Encoding of HTTP/1.0, whose framing is faulty then (6.1). Of two Content-Types each reader takes another one.
 * The connection ends after the answer: where the next request begins cannot be told.
 */
export function ambiguityOf(request: IncomingMessage): GatewayError | undefined {
  if (request.url?.includes('#') === true)
    return refused('The request target holds a "#". Send a "#" that belongs to a name or a value as %23.');
  if (request.httpVersionMinor === 0 && request.headers['transfer-encoding'] !== undefined)
    return refused('HTTP/1.0 knows no Transfer-Encoding. Send a Content-Length, or use HTTP/1.1.');
  const { rawHeaders } = request;
  let hosts = 0;
  let types = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? '';
    if (name.length === 4 && name.toLowerCase() === 'host') hosts += 1;
    else if (name.length === 12 && name.toLowerCase() === 'content-type') types += 1;
  }
  if (types > 1) return refused('The request has more than one Content-Type header. Send one.');
  return hosts > 1 ? refused('The request has more than one Host header. Send one.') : undefined;
}

function refused(message: string): GatewayError {
  return new GatewayError('invalid_request', message, { headers: ['connection', 'close'] });
}
