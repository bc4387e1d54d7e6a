import { GatewayError, type RequestContext, Type } from '../../../core/pipeline/plugin.ts';
import type { Page, Paged } from '../../../core/ports/page.ts';

const defaultSize = 50;

const current = Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000_000, description: 'Page, from 0.' }));
const longDefaultSize = 100;
const sizeOf = (maximum: number, byDefault: number) =>
  Type.Optional(
    Type.Integer({ minimum: 1, maximum, description: `Entries on a page. Default ${byDefault}.` }),
  );
const size = sizeOf(100, defaultSize);

/** The part of a list's query that says which page; `currentPage` and `pageSize` are what some clients send. */
export const pageQuery = { current_page: current, page_size: size, currentPage: current, pageSize: size };

/** The same for lists whose clients ask for up to `most` entries, and for 100 when they say nothing: see `longPageOf`. */
export function longPageQuery(most: number) {
  const long = sizeOf(most, longDefaultSize);
  return { current_page: current, page_size: long, currentPage: current, pageSize: long };
}

/** The same for lists whose clients count their pages from 1, in `page`: see `numberedPageOf`. */
export const numberedPageQuery = {
  page: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000, description: 'Page, from 1.' })),
  ...longPageQuery(500),
};

/** What `pageQuery` lets through. */
interface PageQuery {
  readonly current_page?: number;
  readonly page_size?: number;
  readonly currentPage?: number;
  readonly pageSize?: number;
}

/** The page that a query asks for: the first 50 entries by default. Throws when one thing is said in both spellings. */
export function pageOf(query: PageQuery): Page {
  return pageWith(query, defaultSize);
}

/** The page that a query of `longPageQuery` asks for: the first 100 entries by default. */
export function longPageOf(query: PageQuery): Page {
  return pageWith(query, longDefaultSize);
}

/** The page that a query of `numberedPageQuery` asks for. Throws when it counts from 0 and from 1 at once. */
export function numberedPageOf({ page, ...query }: PageQuery & { readonly page?: number }): Page {
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

/** What every list answers with. */
export const listReply = {
  object: Type.Literal('list'),
  total: Type.Integer({ description: 'Entries in all, on every page.' }),
};

/** What long lists answer with. */
export const longListReply = {
  ...listReply,
  has_more: Type.Boolean({ description: 'Whether there are pages behind this one.' }),
};

/** The entries of a page as a long list answers them. */
export function longList<T>({ offset }: Page, { total, data }: Paged<unknown>, shown: T[]) {
  return { object: 'list' as const, total, has_more: offset + data.length < total, data: shown };
}

/** A stored time (`2030-01-31 09:00:00.123`, in UTC) as ISO 8601. Anything else is left as it is. */
export function isoTime(text: string): string {
  return /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?$/.test(text) ? `${text.replace(' ', 'T')}Z` : text;
}

/**
 * Where links lead: to `publicUrl` (`server.public_url`), without one to the address under which the request came. No
 * slash behind it.
 */
export function publicOrigin(context: RequestContext, publicUrl: string | undefined): string {
  return publicUrl?.replace(/\/+$/, '') ?? `http://${context.header('host') ?? 'localhost'}`;
}
