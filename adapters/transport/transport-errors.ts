import { errors } from 'undici';
import { GatewayError, messageOf } from '../../core/errors/gateway-error.ts';

/** Errors of a call to a provider, by cause. */
export const transportErrors = {
  of: transportError,
  connectTimedOut,
  answerTimedOut,
  closed: transportClosed,
  bodyBroken,
};

/** Progress of a call. `draining`: the answer is complete, but its reader has not taken all of it. */
export type CallPhase = 'connecting' | 'head' | 'body' | 'draining' | 'done';

/** Position and time of a call's failure, for its error message. */
export interface FailurePlace {
  /** `host:port`. */
  readonly peer: string;
  readonly phase: CallPhase;
  /** Received bytes of the answer's body. */
  readonly receivedBytes: number;
}

const remedies: Readonly<Record<string, string>> = {
  ENOTFOUND: 'the host name is unknown: check the spelling of base_url',
  EAI_AGAIN: 'the name server did not answer: check DNS on this machine',
  ECONNREFUSED: 'nothing listens there: check host and port of base_url and that the server runs',
  ECONNRESET: 'the connection was cut while it was set up: check that base_url has the right port and scheme',
  ETIMEDOUT: 'no reply: check firewalls and the route to this host',
  EHOSTUNREACH: 'there is no route to this host: check the network',
  ENETUNREACH: 'there is no route to this network: check the network',
  EADDRNOTAVAIL: 'this machine has no free local port left: reduce concurrency or widen the port range',
  EMFILE: 'this process may open no more files: raise its limit (ulimit -n)',
  ENFILE: 'this machine may open no more files: raise its limit',
  EACCES: 'this process is not allowed to connect there: check its permissions',
  CERT_HAS_EXPIRED: 'the certificate has expired: renew it on the server',
  ERR_TLS_CERT_ALTNAME_INVALID: 'the certificate is for another name: check the host of base_url',
  ERR_SSL_WRONG_VERSION_NUMBER: 'that port does not speak TLS: use http:// in base_url or another port',
  ERR_SSL_PACKET_LENGTH_TOO_LONG: 'that port does not speak TLS: use http:// in base_url or another port',
};

const untrusted = 'the certificate is not trusted: set NODE_EXTRA_CA_CERTS to the file of its authority';
const tlsCode = /^(ERR_TLS_|ERR_SSL_|CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|HOSTNAME_MISMATCH|EPROTO)/;

/**
 * The caller's error for a failure of the network or of undici. A `GatewayError` is returned unchanged; an error of
 * another source becomes `internal`.
 */
function transportError(cause: unknown, place: FailurePlace): GatewayError {
  if (GatewayError.is(cause)) return cause;
  const code = errorCode(cause);
  const text = messageOf(cause);
  if (code === 'UND_ERR_INVALID_ARG' || code === 'UND_ERR_NOT_SUPPORTED')
    return unsendableRequestError(text, cause);
  if (code === 'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH') {
    const message = 'the request body is not as long as its content-length says: send the right length';
    return new GatewayError('invalid_request', message, { cause });
  }
  if (code === 'UND_ERR_DESTROYED' || code === 'UND_ERR_CLOSED') return transportClosed();
  if (place.phase === 'connecting' && code !== '') return unreachable(code, text, place, cause);
  if (isMalformed(cause, code, text, place.phase)) return malformed(text, place, cause);
  if (code !== '' || cause instanceof errors.HTTPParserError) return reset(place, cause);
  return new GatewayError('internal', `the answer of ${place.peer} could not be processed: ${text}`, {
    cause,
  });
}

/** No connection within the timeout of the request. */
function connectTimedOut(peer: string, timeoutMs: number): GatewayError {
  return new GatewayError(
    'upstream_unreachable',
    `cannot connect to ${peer}: no connection within ${timeoutMs} ms; check base_url, firewalls and the route to this host`,
  );
}

/** The head of the answer, or its next bytes, did not arrive in time. */
function answerTimedOut(place: FailurePlace, timeoutMs: number): GatewayError {
  const message =
    place.phase === 'head'
      ? `${place.peer} sent no answer within ${timeoutMs} ms (head timeout); raise the timeout or ask for less`
      : `${place.peer} sent nothing for ${timeoutMs} ms (idle timeout) after ${place.receivedBytes} bytes of its answer; raise the timeout or ask for less`;
  return new GatewayError('upstream_timeout', message);
}

/** The transport is closed. */
function transportClosed(): GatewayError {
  return new GatewayError('shutting_down', 'the gateway is shutting down; send the request again');
}

/** The body that the client was sending stopped before its end. */
function bodyBroken(cause: Error | undefined): GatewayError {
  if (GatewayError.is(cause)) return cause;
  return new GatewayError(
    'client_closed',
    'the request body ended before it was complete; send the request again',
    {
      cause,
    },
  );
}

function unreachable(code: string, text: string, place: FailurePlace, cause: unknown): GatewayError {
  const secure = tlsCode.test(code);
  const remedy = remedies[code] ?? (secure ? untrusted : `check base_url and the network (${text})`);
  return new GatewayError(
    'upstream_unreachable',
    `cannot connect to ${place.peer}: ${secure ? 'TLS failed, ' : ''}${code}, ${remedy}`,
    { cause },
  );
}

function isMalformed(cause: unknown, code: string, text: string, phase: CallPhase): boolean {
  // The parser reports the end of the connection inside a body: a torn answer, not a malformed one.
  if (cause instanceof errors.HTTPParserError) return !text.includes('(Invalid EOF state)');
  if (code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH') return phase === 'head';
  if (code === 'UND_ERR_HEADERS_OVERFLOW') return true;
  return code === 'UND_ERR_SOCKET' && text.startsWith('bad ');
}

function malformed(text: string, place: FailurePlace, cause: unknown): GatewayError {
  return new GatewayError(
    'upstream_invalid',
    `the answer of ${place.peer} is malformed: ${text}; check that base_url points to an HTTP API`,
    { cause },
  );
}

function reset(place: FailurePlace, cause: unknown): GatewayError {
  const when =
    place.phase === 'body'
      ? `after ${place.receivedBytes} bytes of its answer, which is incomplete`
      : 'before it answered';
  return new GatewayError(
    'upstream_reset',
    `${place.peer} closed the connection ${when}; send the request again`,
    { cause },
  );
}

function unsendableRequestError(text: string, cause: unknown): GatewayError {
  const code = text.includes('header') ? 'invalid_header' : 'invalid_request';
  return new GatewayError(code, `the request cannot be sent to the provider: ${text}; correct it`, { cause });
}

function errorCode(cause: unknown): string {
  if (typeof cause !== 'object' || cause === null) return '';
  if ('code' in cause) return typeof cause.code === 'string' ? cause.code : '';
  // Node sets a code on this error, the standard does not.
  return cause instanceof TypeError && cause.message.startsWith('Invalid URL') ? 'ERR_INVALID_URL' : '';
}
