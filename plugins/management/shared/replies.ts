import { GatewayError, Type } from '../../../core/pipeline/plugin.ts';
import type { Page, Paged } from '../../../core/ports/page.ts';

const defaultSize = 50;

const current = Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000_000, description: 'Page, from 0.' }));
const longDefaultSize = 100;
const sizeOf = (maximum: number, byDefault: number) =>
  Type.Optional(
    Type.Integer({ minimum: 1, maximum, description: `Entries on a page. Default ${byDefault}.` }),
  );
const size = sizeOf(100, defaultSize);

/** Query parameters for the page of a list; some clients send `currentPage` and `pageSize`. */
const pageQuery = { current_page: current, page_size: size, currentPage: current, pageSize: size };

/** The same for lists of up to `most` entries per page, default 100: see `longPageOf`. */
function longPageQuery(most: number) {
  const long = sizeOf(most, longDefaultSize);
  return { current_page: current, page_size: long, currentPage: current, pageSize: long };
}

/** The same for lists whose clients count their pages from 1, in `page`: see `numberedPageOf`. */
const numberedPageQuery = {
  page: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000, description: 'Page, from 1.' })),
  ...longPageQuery(500),
};

/** The page of a list that a query asks for. */
export const paging = {
  query: pageQuery,
  longQuery: longPageQuery,
  numberedQuery: numberedPageQuery,
  of: pageOf,
  longOf: longPageOf,
  numberedOf: numberedPageOf,
};

/** Validated parameters of `pageQuery`. */
interface PageQuery {
  readonly current_page?: number;
  readonly page_size?: number;
  readonly currentPage?: number;
  readonly pageSize?: number;
}

/** The page of a query: the first 50 entries by default. Throws when a parameter is there in both spellings. */
function pageOf(query: PageQuery): Page {
  return pageWith(query, defaultSize);
}

/** The page of a `longPageQuery`: the first 100 entries by default. */
function longPageOf(query: PageQuery): Page {
  return pageWith(query, longDefaultSize);
}

/** The page of a `numberedPageQuery`. Throws when it counts from 0 and from 1 at once. */
function numberedPageOf({ page, ...query }: PageQuery & { readonly page?: number }): Page {
  if (page === undefined) return longPageOf(query);
  if (query.current_page === undefined && query.currentPage === undefined)
    return longPageOf({ ...query, current_page: page - 1 });
  throw new GatewayError(
    'invalid_request',
    'Give "page" (from 1) or "current_page" (from 0): both say which page it is.',
    { param: 'page' },
  );
}

function pageWith(query: PageQuery, byDefault: number): Page {
  const number = one('current_page', query.current_page, query.currentPage) ?? 0;
  const limit = one('page_size', query.page_size, query.pageSize) ?? byDefault;
  return { offset: number * limit, limit };
}

function one(name: string, plain: number | undefined, camel: number | undefined): number | undefined {
  if (plain === undefined || camel === undefined) return plain ?? camel;
  throw new GatewayError('invalid_request', `Give "${name}" once: it is there in two spellings.`, {
    param: name,
  });
}

/** Common members of every list. */
const listReply = {
  object: Type.Literal('list'),
  total: Type.Integer({ description: 'Entries in all, on every page.' }),
};

/** Common members of long lists. */
const longListReply = {
  ...listReply,
  has_more: Type.Boolean({ description: 'Whether there are further pages.' }),
};

/** Replies that hold a page of a list. */
export const listReplies = { of: listReply, longOf: longListReply, long: longList };

/** A page as the answer of a long list. */
function longList<T>({ offset }: Page, { total, data }: Paged<unknown>, shown: T[]) {
  return { object: 'list' as const, total, has_more: offset + data.length < total, data: shown };
}

/** A stored time (`2030-01-31 09:00:00.123`, in UTC) as ISO 8601. Any other text is returned unchanged. */
export function isoTime(text: string): string {
  return /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?$/.test(text) ? `${text.replace(' ', 'T')}Z` : text;
}
