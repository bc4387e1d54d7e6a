import type { Answer, RequestContext } from '../../../core/pipeline/plugin.ts';
import { shortBody } from '../../../core/pipeline/browser.ts';

const maxBodyBytes = 32_768;

/** Lets pages of any origin use what has no cookies. */
const forPages = ['access-control-allow-origin', '*'];

/** Refusal of a request without a browser (RFC 6749, 5.2; RFC 7591, 3.2.2). */
export class OauthRefusal extends Error {
  readonly code: string;
  readonly status: number;

  constructor(code: string, message: string, status = 400) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

/** Parameters of a query or a form: each once (RFC 6749, 3.1). */
export class Parameters {
  readonly #given: URLSearchParams;
  readonly #refuse: (why: string) => Error;

  constructor(text: string, refuse: (why: string) => Error) {
    this.#given = new URLSearchParams(text);
    this.#refuse = refuse;
  }

  /** Undefined when it is missing or empty. */
  take(name: string): string | undefined {
    const [value, ...more] = this.#given.getAll(name);
    if (more.length > 0) throw this.#refuse(`The parameter ${name} is given more than once.`);
    return value === '' ? undefined : value;
  }

  need(name: string): string {
    const value = this.take(name);
    if (value === undefined) throw this.#refuse(`The parameter ${name} is missing.`);
    return value;
  }
}

/** The body as text. Throws an `OauthRefusal` for one that is too long. */
export async function bodyOf(context: RequestContext): Promise<string> {
  const text = await shortBody(context, maxBodyBytes);
  if (text !== undefined) return text;
  throw new OauthRefusal(
    'invalid_request',
    `Send at most ${maxBodyBytes} bytes, with a Content-Length.`,
    413,
  );
}

export function jsonAnswer(status: number, value: object): Answer {
  const headers = [...forPages, 'content-type', 'application/json', 'cache-control', 'no-store'];
  return { status, headers, body: Buffer.from(JSON.stringify(value)) };
}

export function oauthError({ code, message, status }: OauthRefusal): Answer {
  return jsonAnswer(status, { error: code, error_description: message });
}
