import { GatewayError, Type } from '../../core/pipeline/plugin.ts';
import type { Page } from '../../core/ports/resources.ts';

const defaultSize = 50;

const current = Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000_000, description: 'Page, from 0.' }));
const size = Type.Optional(
  Type.Integer({ minimum: 1, maximum: 100, description: 'Entries on a page. Default 50.' }),
);

/** The part of a list's query that says which page; `currentPage` and `pageSize` are what some clients send. */
export const pageQuery = { current_page: current, page_size: size, currentPage: current, pageSize: size };

/** What `pageQuery` lets through. */
export interface PageQuery {
  readonly current_page?: number;
  readonly page_size?: number;
  readonly currentPage?: number;
  readonly pageSize?: number;
}

/** The page that a query asks for: the first 50 entries by default. Throws when one thing is said in both spellings. */
export function pageOf(query: PageQuery): Page {
  const number = one('current_page', query.current_page, query.currentPage) ?? 0;
  const limit = one('page_size', query.page_size, query.pageSize) ?? defaultSize;
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
