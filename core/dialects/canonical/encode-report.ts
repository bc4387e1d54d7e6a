import type { DialectName } from '../endpoint.ts';
import type { Extras } from './chat-part.ts';

/**
 * Collects what a target's wire cannot say. The names are those of the client's request where that is sensible
 * (`logit_bias`, `messages[2].content[0].cache_control`), at most `maxReported` of them.
 */
export class EncodeReport {
  readonly dropped: string[] = [];
  readonly emulated: string[] = [];

  /** The target cannot be told: it is lost. */
  drop(param: string): void {
    add(this.dropped, param);
  }

  /** Said in other words that mean nearly the same. */
  emulate(param: string): void {
    add(this.emulated, param);
  }
}

const maxReported = 64;

function add(list: string[], param: string): void {
  if (list.length < maxReported && !list.includes(param)) list.push(param);
}

/** Reports every extra that belongs to another dialect than `own`; `place` is put before each name (`messages[0].`). */
export function reportForeignExtras(
  extras: Extras | undefined,
  own: readonly DialectName[],
  report: EncodeReport,
  place = '',
): void {
  if (extras === undefined) return;
  for (const [dialect, members] of Object.entries(extras)) {
    if (own.includes(dialect as DialectName)) continue;
    for (const name of Object.keys(members)) report.drop(place + name);
  }
}
