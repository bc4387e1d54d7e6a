import type { Duplex } from 'node:stream';
import type { GatewayError } from '../errors/gateway-error.ts';
import type { HeaderList } from './header-list.ts';

/** What a provider says to a request that wants to leave HTTP for another protocol. */
export type UpgradeAnswer = SwitchedAnswer | DeclinedAnswer;

/** It switched (101). The connection belongs to the receiver from now on; bytes that came with the head are still to be read from it. */
export interface SwitchedAnswer {
  readonly kind: 'switched';
  readonly headers: HeaderList;
  readonly connection: Duplex;
}

/** It answered in HTTP instead. */
export interface DeclinedAnswer {
  readonly kind: 'declined';
  readonly status: number;
  readonly headers: HeaderList;
  readonly body: Buffer;
}

export interface UpgradeCall {
  /**
   * Rejects with `upstream_unreachable`, `upstream_reset`, `upstream_timeout`, `upstream_busy`, `upstream_too_large`
   * (an answer in HTTP of more than 1 MiB) or the reason of `abort`.
   */
  readonly answer: Promise<UpgradeAnswer>;
  /** Ends the call, or destroys the connection to which it switched. */
  abort(error: GatewayError): void;
}
