import type { Dialect } from '../dialects/dialect.ts';
import type { Coding } from '../connection/content-encoding.ts';
import type { Answer, StreamSource, StreamTarget } from '../pipeline/answer.ts';
import { decodedSource } from '../pipeline/decoded-source.ts';
import { withoutHeader } from '../pipeline/response-view.ts';

/** A compressed stream, decoded and without the usage event for which the gateway asked on the client's behalf. */
export function strippedAnswer(
  answer: Answer & { readonly body: StreamSource },
  coding: Coding,
  dialect: Dialect,
): Answer {
  const stripper = dialect.usageStripper?.();
  if (stripper === undefined) return answer;
  const source = decodedSource(answer.body, coding);
  const body: StreamSource = {
    pipe(target: StreamTarget) {
      const pass = (bytes: Buffer | undefined): boolean => bytes === undefined || target.data(bytes);
      source.pipe({
        data: (chunk) => pass(stripper.push(chunk)),
        end() {
          pass(stripper.finish());
          target.end();
        },
        fail: (error, told) => target.fail(error, told),
      });
    },
    resume: () => source.resume(),
    cancel: (error) => source.cancel(error),
  };
  return { ...answer, headers: withoutHeader(answer.headers, 'content-encoding'), body };
}
