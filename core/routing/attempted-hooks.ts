import { asGatewayError } from '../http/reply.ts';
import { isStreamSource, type Answer } from '../pipeline/answer.ts';
import { isPromise, type HookRuntime } from '../pipeline/call-hook.ts';
import { callStep } from '../pipeline/call-step.ts';
import type { Exchange } from '../pipeline/exchange.ts';

/**
 * Shows what the provider answered to the `attempted` hooks, the one nearest the provider first, and returns what they
 * made of it. Throws their refusal; a stream that nobody will read then is cancelled.
 */
export function runAttemptedHooks(exchange: Exchange, received: Answer, runtime: HookRuntime): Answer {
  let answer = received;
  for (const step of exchange.pipeline.attempted) {
    try {
      const replaced = callStep(step, exchange, runtime, () => step.run(exchange, answer));
      if (replaced !== undefined && !isPromise(replaced)) answer = replaced;
    } catch (error) {
      if (isStreamSource(answer.body)) answer.body.cancel(asGatewayError(error));
      throw error;
    }
  }
  return answer;
}
