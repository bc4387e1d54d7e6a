import { isUtf8 } from 'node:buffer';
import { isEventStreamType } from '../../core/dialects/event-stream-type.ts';
import { providerCall, type RequestContext, type ToldCall } from '../../core/pipeline/plugin.ts';
import type { BodyRow } from '../../core/ports/request-row.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Redaction } from '../../core/redaction/redaction.ts';
import { cutBody, type KeptBody } from './kept-body.ts';

const nothing: KeptBody = { bytes: Buffer.alloc(0), truncated: true };

/** The part of a body row that says what was sent and answered. */
export type LoggedBodies = Pick<
  BodyRow,
  'request' | 'response' | 'request_truncated' | 'response_truncated' | 'log_format'
>;

/**
 * Both bodies as text. One format holds for both: `base64` as soon as one of them is no UTF-8, `sse` when the
 * answer is an event stream, `json` when both look like JSON.
 */
export function loggedBodies(request: KeptBody, response: KeptBody, contentType: string): LoggedBodies {
  const isText = isUtf8(request.bytes) && isUtf8(response.bytes);
  const encoding = isText ? 'utf8' : 'base64';
  return {
    request: request.bytes.toString(encoding),
    response: response.bytes.toString(encoding),
    request_truncated: request.truncated,
    response_truncated: response.truncated,
    log_format: isText ? textFormat(request.bytes, response.bytes, contentType) : 'base64',
  };
}

function textFormat(request: Buffer, response: Buffer, contentType: string): BodyRow['log_format'] {
  if (isEventStreamType(contentType)) return 'sse';
  return looksLikeJson(request) && looksLikeJson(response) ? 'json' : 'text';
}

/**
 * A body without what must not be logged. Nothing is kept of one that is no text: what cannot be read cannot be searched.
 */
export async function redactedBody(
  { bytes, truncated }: KeptBody,
  contentType: string,
  redaction: Redaction | undefined,
  clock: Pick<Clock, 'monotonic'>,
): Promise<KeptBody> {
  if (redaction === undefined || bytes.length === 0) return { bytes, truncated };
  if (!isUtf8(bytes)) return nothing;
  const how = { isEventStream: isEventStreamType(contentType), isTruncated: truncated };
  const redacted = await redaction.body(bytes.toString('utf8'), how, clock);
  return { bytes: Buffer.from(redacted), truncated };
}

/** Begins like an object or a list; nothing at all is no contradiction. */
function looksLikeJson(bytes: Buffer): boolean {
  let at = 0;
  while (at < bytes.length && (bytes[at] as number) <= 0x20) at++;
  return at === bytes.length || bytes[at] === 0x7b || bytes[at] === 0x5b;
}

/** Whether a JSON document can stand in a row as it is, without being escaped. */
export function isEmbeddable(document: Buffer, maxBytes: number): boolean {
  // A line of the journal is a row: a document that spans lines is escaped like any other text.
  return document.length <= maxBytes && !document.includes(10) && isUtf8(document);
}

/** What is kept of the bodies of a call to a provider. */
export interface CallBodies {
  /** `own`: the same as the body of the request. */
  readonly sent: KeptBody | 'own' | false | undefined;
  readonly answered: KeptBody | false | undefined;
}

/** What was last sent to a provider for a request, and the answer to it where it was translated. */
export function callBodies(context: RequestContext, maxBytes: number): CallBodies {
  const call = context.get(providerCall);
  const cut = (body: KeptBody | undefined) => body && cutBody(body.bytes, body.truncated, maxBytes);
  return { sent: call?.body === 'own' ? 'own' : cut(call?.body), answered: cut(call?.answerBody) };
}

/** JSON of a call, as a row holds it. */
export function callText({ request, answer }: ToldCall, { sent, answered }: CallBodies): string {
  return JSON.stringify({
    request: { ...request, ...(sent === 'own' ? { own: true } : bodyMembers(sent)) },
    ...(answer !== undefined && { response: { ...answer, ...bodyMembers(answered) } }),
  });
}

function bodyMembers(kept: KeptBody | false | undefined) {
  if (kept === undefined || kept === false || (kept.bytes.length === 0 && !kept.truncated)) return {};
  const isText = isUtf8(kept.bytes);
  return {
    body: kept.bytes.toString(isText ? 'utf8' : 'base64'),
    ...(!isText && { base64: true }),
    ...(kept.truncated && { truncated: true }),
  };
}
