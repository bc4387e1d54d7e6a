import { GatewayError } from '../errors/gateway-error.ts';
import type { Answer } from '../pipeline/answer.ts';
import { clientLeft } from '../pipeline/client-left.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import type { Clock } from '../ports/clock.ts';
import type { TryOptions } from '../pipeline/router.ts';
import type { Transport, UpstreamRequest } from '../ports/transport.ts';
import { forwardAnswerHeaders } from './forward-headers.ts';

/** What carrying a request for WebSocket to its provider needs. */
export interface UpgradeSending {
  readonly exchange: Exchange;
  readonly request: UpstreamRequest;
  readonly options: TryOptions;
  readonly transport: Transport;
  readonly clock: Clock;
}

/**
 * Asks the provider for WebSocket. Its 101 comes back with the connection, anything else as it is. Throws what the
 * transport fails with, and `not_supported` where the
 * transport has no WebSocket.
 */
export async function sendUpgrade(sending: UpgradeSending): Promise<Answer> {
  const { exchange, request, options, transport, clock } = sending;
  const { facts } = exchange;
  if (transport.upgrade === undefined) {
    throw new GatewayError(
      'not_supported',
      `The provider "${facts.provider}" serves no WebSocket. Name another one.`,
      { param: 'provider' },
    );
  }
  const call = transport.upgrade(request);
  exchange.onAbort(() => {
    // A connection that was relayed is ended by the relay, after what the client had still said.
    if (exchange.upgrade?.switched !== true) call.abort(exchange.failure ?? clientLeft());
  });
  try {
    const answer = await call.answer;
    facts.firstByteAt = clock.monotonic();
    const headers = forwardAnswerHeaders(answer.headers, false, exchange.knownNames);
    if (answer.kind === 'switched') {
      const switched = { connection: answer.connection, idleTimeoutMs: options.idleTimeoutMs };
      return { status: 101, headers, body: null, source: 'provider', switched };
    }
    facts.upstreamEndedAt = facts.firstByteAt;
    return { status: answer.status, headers, body: answer.body, source: 'provider' };
  } catch (error) {
    facts.upstreamEndedAt = clock.monotonic();
    throw error;
  }
}

/** The model that the query of a request for WebSocket names (`/realtime?model=…`), or an empty text. */
export function queryModel(query: string): string {
  return new URLSearchParams(query).get('model') ?? '';
}
