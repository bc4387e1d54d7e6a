import { asGatewayError } from '../pipeline/reply.ts';
import { isStreamSource, type Answer } from '../pipeline/answer.ts';
import { isPromise, type HookRuntime } from '../pipeline/call-hook.ts';
import { callStep } from '../pipeline/call-step.ts';
import type { MaybePromise } from '../pipeline/context.ts';
import type { Exchange } from '../pipeline/exchange.ts';

/**
 * Shows what the provider answered to the `attempted` hooks, the one nearest the provider first, and returns what they
 * made of it; a promise only when one of them returns one. Throws their refusal; a stream that nobody will read then is
 * cancelled.
 */
export function runAttemptedHooks(
  exchange: Exchange,
  received: Answer,
  runtime: HookRuntime,
  from = 0,
): MaybePromise<Answer> {
  const steps = exchange.pipeline.attempted;
  let answer = received;
  for (let i = from; i < steps.length; i++) {
    const step = steps[i] as (typeof steps)[number];
    const before = answer;
    try {
      const replaced = callStep(step, exchange, runtime, () => step.run(exchange, before));
      if (isPromise(replaced))
        return replaced.then(
          (came) => runAttemptedHooks(exchange, came ?? before, runtime, i + 1),
          (error: unknown) => refused(before, error),
        );
      answer = replaced ?? before;
    } catch (error) {
      refused(before, error);
    }
  }
  return answer;
}

function refused(answer: Answer, error: unknown): never {
  if (isStreamSource(answer.body)) answer.body.cancel(asGatewayError(error));
  throw error;
}
