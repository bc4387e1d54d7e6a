import type { AnswerFacts } from '../dialects/dialect.ts';
import type { Exchange } from '../pipeline/exchange.ts';

/** Keeps what an answer tells for metrics, limits and the log; what it does not tell stays as it was. */
export function learnFacts({ facts }: Exchange, found: AnswerFacts): void {
  if (found.usage) facts.usage = found.usage;
  if (found.model) facts.modelAnswered = found.model;
  if (found.finishReason) facts.finishReason = found.finishReason;
}
