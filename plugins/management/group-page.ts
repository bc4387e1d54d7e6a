import { Type } from '../../core/pipeline/plugin.ts';
import { isoTime } from './iso-time.ts';

const defaultPageSize = 50;

/** The part of a query of groups that says which page. */
export const groupPageQuery = {
  current_page: Type.Optional(
    Type.Integer({ minimum: 0, maximum: 1_000_000, default: 0, description: 'Page, from 0.' }),
  ),
  page_size: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 500, default: defaultPageSize, description: 'Groups on a page.' }),
  ),
};

/** The page that a query of `groupPageQuery` asks for: the first 50 groups by default. */
export function groupPage({
  page_size: limit = defaultPageSize,
  current_page: page = 0,
}: {
  readonly page_size?: number;
  readonly current_page?: number;
}): { readonly limit: number; readonly offset: number } {
  return { limit, offset: page * limit };
}

/** Stores write decimals and large counts as text, and times without a zone. */
export function cellOf(column: string, cell: string | number | null): string | number | null {
  if (typeof cell !== 'string') return cell;
  return column === 'first_seen' || column === 'last_seen' ? isoTime(cell) : Number(cell);
}
