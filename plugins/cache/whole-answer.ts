import type { AnswerFacts } from '../../core/dialects/dialect.ts';
import type { EndpointId } from '../../core/dialects/endpoint.ts';
import type { AttemptContext } from '../../core/pipeline/context.ts';

/** Endpoints whose answers say how they ended. */
const generating: ReadonlySet<EndpointId> = new Set([
  'chat.completions',
  'completions',
  'responses',
  'messages',
  'generate-content',
]);

/** Ends that are no answer. */
const broken: ReadonlySet<string> = new Set(['error', 'failed', 'cancelled']);

/**
 * What a complete JSON answer tells of itself, when it is one worth keeping: whole, and without an error in it.
 * `known`: what has been read from it already.
 */
export function wholeJson(
  { dialect, endpoint }: AttemptContext,
  body: Buffer,
  known: AnswerFacts | undefined,
): AnswerFacts | undefined {
  const facts = known ?? dialect.scanAnswer(endpoint.id, body);
  // Facts are found only in what can be parsed; an answer without any still has to prove that it is JSON.
  if (facts.usage === undefined && facts.finishReason === undefined && !isJsonObject(body)) return undefined;
  return isGood(endpoint.id, facts) ? facts : undefined;
}

/** The same for the bytes of a stream: it must have come to its own end marker. */
export function wholeStream({ dialect, endpoint }: AttemptContext, bytes: Buffer): AnswerFacts | undefined {
  const scanner = dialect.streamScanner(endpoint.id);
  scanner.scan(bytes);
  return scanner.ended && isGood(endpoint.id, scanner.facts) ? scanner.facts : undefined;
}

function isGood(endpoint: EndpointId, { errorMessage, finishReason }: AnswerFacts): boolean {
  if (errorMessage !== undefined) return false;
  if (finishReason === undefined) return !generating.has(endpoint);
  return !finishReason.split(',').some((reason) => broken.has(reason));
}

function isJsonObject(body: Buffer): boolean {
  try {
    const value: unknown = JSON.parse(body.toString('utf8'));
    return typeof value === 'object' && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}
