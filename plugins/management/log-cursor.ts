import { GatewayError } from '../../core/pipeline/plugin.ts';
import type { LogCursor, TimeWindow } from '../../core/ports/analytics.ts';
import { sha256 } from '../../core/base/sha256.ts';

/** Where the next page of a list of log entries begins. */
export interface LogPlace {
  readonly order: 'newest' | 'oldest';
  /** That of the first page: now has moved on since. */
  readonly window: TimeWindow;
  readonly after: LogCursor;
}

const checkLength = 8;
const written =
  /^(newest|oldest) (\d{1,15}) (\d{1,15}) (\d{1,15}) ([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/;

/** The place as one word for clients. */
export function writeCursor({ order, window, after }: LogPlace): string {
  const text = `${order} ${window.from} ${window.to} ${after.createdAt} ${after.id}`;
  return Buffer.from(checkOf(text) + text).toString('base64url');
}

/** Throws `invalid_request` for what `writeCursor` has not written. */
export function readCursor(cursor: string): LogPlace {
  const whole = Buffer.from(cursor, 'base64url').toString();
  const text = whole.slice(checkLength);
  const [, order, from, to, createdAt, id = ''] = written.exec(text) ?? [];
  if (order === undefined || whole.slice(0, checkLength) !== checkOf(text)) {
    throw new GatewayError(
      'invalid_request',
      '"cursor" is not one of this gateway. Give the "next_cursor" of the page before unchanged, or leave it out to begin anew.',
      { param: 'cursor' },
    );
  }
  return {
    order: order === 'oldest' ? 'oldest' : 'newest',
    window: { from: Number(from), to: Number(to) },
    after: { createdAt: Number(createdAt), id },
  };
}

/** Against mistakes: whoever forges a cursor sees no more than with a filter. */
function checkOf(text: string): string {
  return sha256(`log cursor ${text}`, 'base64url').slice(0, checkLength);
}
