import { GatewayError } from '../errors/gateway-error.ts';
import type { SwitchedProvider } from './answer.ts';
import { clientLeft, clientStalled } from './client-left.ts';
import type { Exchange } from './exchange.ts';
import { settle, type EngineRuntime } from './settle.ts';
import type { HeaderList } from '../ports/header-list.ts';
import { UpgradeRelay, type RelayEnd } from '../connection/upgrade-relay.ts';

/** Switches the client to WebSocket, relays until both connections have closed, and settles the request then. */
export function deliverUpgrade(
  exchange: Exchange,
  headers: HeaderList,
  provider: SwitchedProvider,
  runtime: EngineRuntime,
): void {
  const { upgrade, sink, facts } = exchange;
  const { connection, idleTimeoutMs } = provider;
  if (upgrade === undefined || exchange.aborted) {
    connection.destroy();
    const left = exchange.failure ?? clientLeft();
    settle(exchange, { status: left.status }, left, runtime);
    return;
  }
  const own: string[] = [];
  exchange.answerHeaders.append(exchange, own);
  let client;
  try {
    client = upgrade.switch([...headers, ...withoutConnection(own)]);
  } catch (error) {
    connection.destroy();
    throw error;
  }
  sink.switchedAway(client.socket);
  for (const side of [client.socket, connection]) side.once('end', () => (sink.ended = true));
  const relay = new UpgradeRelay({
    client: client.socket,
    early: client.early,
    provider: connection,
    idleTimeoutMs,
    stallTimeoutMs: sink.stallTimeoutMs,
    over(end, { sent, received }) {
      facts.requestBytes = sent;
      facts.responseBytes = received;
      facts.upstreamEndedAt = runtime.clock.monotonic();
      settle(exchange, { status: 101 }, exchange.failure ?? errorOf(end, idleTimeoutMs), runtime);
    },
  });
  relay.start();
}

/** The gateway's `connection: close` belongs to answers in HTTP. */
function withoutConnection(headers: HeaderList): string[] {
  const kept: string[] = [];
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] as string;
    if (name.toLowerCase() !== 'connection') kept.push(name, headers[i + 1] as string);
  }
  return kept;
}

function errorOf(end: RelayEnd, idleTimeoutMs: number): GatewayError | undefined {
  switch (end) {
    case 'closed':
      return undefined;
    case 'client-lost':
      return clientLeft();
    case 'stalled':
      return clientStalled();
    case 'provider-lost':
      return new GatewayError(
        'upstream_reset',
        "The provider's WebSocket broke without an end. Connect again.",
      );
    case 'idle':
      return new GatewayError(
        'upstream_timeout',
        `Neither side of the WebSocket sent a byte for ${idleTimeoutMs} ms (idle_timeout_ms of the provider plugin). Send pings, or raise it.`,
      );
  }
}
