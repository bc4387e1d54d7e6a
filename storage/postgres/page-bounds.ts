import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Page } from '../../core/ports/resources.ts';

const largestPage = 100;

/** How many rows a page has, and how many are before it. Refuses what is no page (`invalid_request`). */
export function pageBounds({ current, size }: Page): { readonly limit: number; readonly offset: number } {
  const offset = current * size;
  const valid = Number.isInteger(size) && size >= 1 && size <= largestPage && current >= 0;
  if (valid && Number.isSafeInteger(current) && Number.isSafeInteger(offset)) return { limit: size, offset };
  const message = `Pages are counted from 0 and have 1 to ${largestPage} entries; page ${current} of ${size} was asked for.`;
  throw new GatewayError('invalid_request', message, { param: valid ? 'current_page' : 'page_size' });
}
