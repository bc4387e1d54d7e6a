import { withFullStop } from '../../core/errors/full-stop.ts';
import { boundedPlace } from '../../core/errors/gateway-error.ts';
import { GatewayError } from '../../core/pipeline/plugin.ts';

/** What is wrong with one field of a body. */
export interface BodyMistake {
  /** JSON pointer: `/users/3/id`. */
  readonly path: string;
  readonly message: string;
}

const maxShown = 20;

/** For fields that their schema lets through and that cannot be: `invalid_request` with every mistake and its place. */
export function refusedBody(mistakes: readonly BodyMistake[]): GatewayError {
  return new GatewayError(
    'invalid_request',
    withFullStop(`The body is not valid: ${shownMistakes(mistakes)}`),
    {
      param: mistakes[0]?.path ?? null,
      extra: { errors: mistakes },
    },
  );
}

/** The mistakes for a sentence, the first 20 of them. */
export function shownMistakes(mistakes: readonly BodyMistake[]): string {
  const named = mistakes.slice(0, maxShown).map(({ path, message }) => `${boundedPlace(path)} ${message}`);
  const rest = mistakes.length - named.length;
  return `${named.join('; ')}${rest === 0 ? '' : `; and ${rest} more`}`;
}
