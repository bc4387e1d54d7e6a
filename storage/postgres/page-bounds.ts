import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Page } from '../../core/ports/page.ts';

const largestPage = 100;

/** The page as it is, when it is one. Refuses what is none (`invalid_request`). */
export function pageBounds({ offset, limit }: Page): Page {
  const valid = Number.isInteger(limit) && limit >= 0 && limit <= largestPage;
  if (valid && Number.isSafeInteger(offset) && offset >= 0) return { offset, limit };
  const message = `A page has 0 to ${largestPage} entries behind a number of others; ${limit} behind ${offset} were asked for.`;
  throw new GatewayError('invalid_request', message, { param: valid ? 'current_page' : 'page_size' });
}
