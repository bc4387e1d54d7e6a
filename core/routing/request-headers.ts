import { notEnforced } from '../organisation/not-enforced.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import { type HeaderName, headerNameList, isHeaderName } from '../base/header-names.ts';
import { refusedForwardName } from './refused-forward-name.ts';

/** What the request's own headers say about how it is carried. */
export interface RoutingHeaders {
  /** Milliseconds, 1 to a day; undefined leaves it to config and options. */
  readonly requestTimeoutMs: number | undefined;
  /** Lower-case names of the client's headers that reach the provider also where its request is translated; at most 64. */
  readonly forwardHeaders: readonly string[];
  /** Lower-case names of the client's headers that never reach the provider; at most 64. */
  readonly sensitiveHeaders: readonly string[];
}

const maxTimeoutMs = 86_400_000;
const maxNames = 64;
const noNames: readonly string[] = Object.freeze([]);
const nothingSaid: RoutingHeaders = Object.freeze({
  requestTimeoutMs: undefined,
  forwardHeaders: noNames,
  sensitiveHeaders: noNames,
});

/**
 * Reads `request-timeout`, `forward-headers` and `sensitive-headers` under the gateway's prefixes; an empty one says
 * nothing. Headers that ask for guardrails are refused. Throws `invalid_header` that names the header and what it must not hold.
 */
export function readRoutingHeaders(exchange: Exchange): RoutingHeaders {
  if (exchange.guardrailHeaders !== undefined) refuseGuardrails(exchange, exchange.guardrailHeaders);
  const timeout = exchange.service('request-timeout') || undefined;
  const forward = exchange.service('forward-headers') || undefined;
  const sensitive = exchange.service('sensitive-headers') || undefined;
  if (timeout === undefined && forward === undefined && sensitive === undefined) return nothingSaid;
  return {
    requestTimeoutMs: timeout === undefined ? undefined : readTimeout(timeout),
    forwardHeaders:
      forward === undefined ? noNames : readForwardHeaders(forward, exchange.knownNames.prefixes),
    sensitiveHeaders: sensitive === undefined ? noNames : readNames('sensitive-headers', sensitive),
  };
}

/** A check that would not run is never accepted. An empty value or list asks for none. */
function refuseGuardrails(exchange: Exchange, asking: readonly HeaderName[]): void {
  for (const { lower, service = lower } of asking) {
    const value = exchange.header(lower)?.trim() ?? '';
    if (value === '' || /^\[\s*\]$/.test(value)) continue;
    throw invalid(service.slice(0, 64), `${notEnforced.guardrails} Or leave the header out.`);
  }
}

function readTimeout(text: string): number {
  const value = /^\d{1,8}$/.test(text) ? Number(text) : 0;
  if (value < 1 || value > maxTimeoutMs) {
    throw invalid(
      'request-timeout',
      `Send whole milliseconds, 1 to ${maxTimeoutMs} (a day), or leave it out.`,
    );
  }
  return value;
}

function readForwardHeaders(text: string, servicePrefixes: readonly string[]): readonly string[] {
  const names = readNames('forward-headers', text);
  for (const name of names) {
    const reason = refusedForwardName(name, servicePrefixes);
    if (reason !== undefined) throw invalid('forward-headers', `Take "${name}" out of it: ${reason}.`);
  }
  return names;
}

function readNames(header: string, text: string): readonly string[] {
  const names = headerNameList(text);
  if (names.length > maxNames) throw invalid(header, `It may name ${maxNames} headers at the most.`);
  const wrong = names.find((name) => !isHeaderName(name));
  if (wrong === undefined) return names;
  throw invalid(
    header,
    `"${wrong.slice(0, 64)}" is no name of a header. Send names with commas between them.`,
  );
}

function invalid(header: string, remedy: string): GatewayError {
  return new GatewayError('invalid_header', `The ${header} header cannot be used. ${remedy}`, {
    param: header,
  });
}
