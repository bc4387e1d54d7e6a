import type { GatewayError } from '../../errors/gateway-error.ts';
import type { Answer } from '../../pipeline/answer.ts';
import type { Exchange } from '../../pipeline/exchange.ts';
import type { PlanLeaf } from '../plan/plan-node.ts';

/** How the tries at one target came out: with an answer, or with an error. */
export interface TryResult {
  readonly exchange: Exchange;
  readonly leaf: PlanLeaf;
  /** What a client would see. */
  readonly status: number;
  /** No other target would do better. */
  readonly final: boolean;
  readonly answer: Answer | undefined;
  readonly error: GatewayError | undefined;
}
