import type { ChatPart, Extras } from '../../../core/dialects/canonical/chat-part.ts';
import { reportForeignExtras, type EncodeReport } from '../../../core/dialects/canonical/encode-report.ts';
import type { JsonObject } from '../json-reading.ts';

/** The members that this dialect alone can say. */
export function ownExtras(extras: Extras | undefined): JsonObject {
  return extras?.['cohere-v2'] ?? {};
}

/** Reports the extras of other dialects; `place` is put before each name. */
export function reportExtras(extras: Extras | undefined, report: EncodeReport, place: string): void {
  reportForeignExtras(extras, ['cohere-v2'], report, place);
}

/** Reports what no part of a Cohere message can carry. */
export function reportPartRest(part: ChatPart, report: EncodeReport, place: string): void {
  if (part.cache !== undefined) report.drop(`${place}.cache_control`);
  if (part.signature !== undefined) report.drop(`${place}.signature`);
  if (part.extras !== undefined) reportExtras(part.extras, report, `${place}.`);
}
