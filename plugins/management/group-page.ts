import { GatewayError, Type } from '../../core/pipeline/plugin.ts';
import { groupColumns, type GroupColumn } from '../../core/ports/analytics.ts';
import { isoTime } from './iso-time.ts';
import { nearest } from './nearest.ts';

const defaultPageSize = 50;

/** Always there; clients name it all the same. */
const requestCount = 'requests';
const columnNames = [requestCount, ...groupColumns] as const;

/** The part of a query of groups that says which columns. */
export function columnsQuery(without: string) {
  return Type.Optional(
    Type.String({
      maxLength: 2000,
      description: `Columns, with commas between them or repeated: ${groupColumns.join(', ')}. ${without}`,
    }),
  );
}

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

/** The columns that a query names, each once. Throws `invalid_request` with a suggestion for one that is not known. */
export function columnsOf(list = ''): readonly GroupColumn[] {
  const given = list.split(',').map((name) => name.trim());
  const names = given.filter((name) => name !== '').map((name) => known('columns', name, columnNames));
  return [...new Set(names)].filter((name) => name !== requestCount);
}

/** The value as one of those that are known; throws `invalid_request` with a suggestion otherwise. */
export function known<T extends string>(param: string, value: string, choices: readonly T[]): T {
  const found = choices.find((choice) => choice === value);
  if (found !== undefined) return found;
  const shown = value.slice(0, 64);
  const near = nearest(shown, choices);
  const hint = near === undefined ? '' : ` Did you mean "${near}"?`;
  throw new GatewayError(
    'invalid_request',
    `"${shown}" is no value of "${param}".${hint} Known: ${choices.join(', ')}.`,
    {
      param,
    },
  );
}
