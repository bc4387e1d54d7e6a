import { memo, useMemo, type KeyboardEvent, type ReactNode } from 'react';
import {
  flexRender,
  getCoreRowModel,
  getSortedRowModel,
  useReactTable,
  type ColumnDef,
  type Header,
  type Row,
  type RowData,
} from '@tanstack/react-table';
import { ArrowDown, ArrowUp } from 'lucide-react';
import { classes } from '@/lib/classes';
import { openEvents, stepOf, useOpen } from '@/ui/rows';

declare module '@tanstack/react-table' {
  // The names of the parameters are those of the library.
  interface ColumnMeta<TData extends RowData, TValue> {
    /** Numbers stand at the right. */
    readonly align?: 'right';
    /** Says how things stand with the row: a narrow table shows it beside the first column. */
    readonly isState?: true;
    /** Buttons, which say themselves what they do: a narrow table does not name the column before them. */
    readonly isActions?: true;
    /** The tooltip of the head. */
    readonly hint?: string;
  }
}

/** The columns of rows of one type. */
export type Columns<T> = ColumnDef<T, unknown>[];

/** The column that rows are sorted by. */
export interface Sort {
  readonly id: string;
  readonly desc: boolean;
}

interface DataTableProps<T> {
  /** Says what the rows are, to readers of the screen. */
  readonly label: string;
  readonly columns: Columns<T>;
  readonly rows: readonly T[];
  readonly rowId: (row: T) => string;
  readonly onOpen?: (row: T) => void;
  /** With it, columns with a value (`accessorFn`, `accessorKey`) are sorted by a click on their head. */
  readonly sort?: Sort;
  readonly onSort?: (sort: Sort) => void;
  readonly footer?: ReactNode;
}

/**
 * A table whose rows open with a click, Enter, and are walked with j and k. On a telephone (`folding-table`) a row shows its
 * first column and its state, and below them the others, each after the name of its column: the roles keep it a table there.
 */
export function DataTable<T>(props: DataTableProps<T>) {
  const { label, columns, rows, rowId, onOpen, sort, onSort, footer } = props;
  const sorting = useMemo(() => (sort === undefined ? [] : [{ ...sort }]), [sort]);
  const table = useReactTable({
    data: rows as T[],
    columns,
    getCoreRowModel: getCoreRowModel(),
    ...(sort !== undefined && { getSortedRowModel: getSortedRowModel(), state: { sorting } }),
    enableSorting: sort !== undefined,
    sortDescFirst: true,
    enableSortingRemoval: false,
    onSortingChange: (update) => {
      const [next] = typeof update === 'function' ? update(sorting) : update;
      if (next !== undefined) onSort?.(next);
    },
    getRowId: rowId,
  });
  const openRow = useOpen(onOpen);

  const walk = (event: KeyboardEvent): void => {
    const step = stepOf(event);
    if (step === 0) return;
    event.preventDefault();
    const row = event.target instanceof HTMLElement ? event.target.closest('tr') : null;
    focusRow(step === 1 ? row?.nextElementSibling : row?.previousElementSibling);
  };

  return (
    <div className="min-w-0 overflow-auto">
      <table role="table" className="folding-table w-full border-collapse text-left" aria-label={label}>
        <thead role="rowgroup" className="bg-panel sticky top-0 z-10">
          {table.getHeaderGroups().map((group) => (
            <tr key={group.id} role="row" className="border-line border-b">
              {group.headers.map((header) => (
                <Head key={header.id} header={header} />
              ))}
            </tr>
          ))}
        </thead>
        <tbody role="rowgroup" onKeyDown={walk}>
          {table.getRowModel().rows.map((row) => (
            <BodyRow
              key={row.id}
              row={row as Row<unknown>}
              content={row.original}
              columns={columns as Columns<unknown>}
              onOpen={openRow as ((row: unknown) => void) | undefined}
            />
          ))}
        </tbody>
      </table>
      {footer}
    </div>
  );
}

function Head<T>({ header }: { readonly header: Header<T, unknown> }) {
  const { column } = header;
  const { columnDef } = column;
  const sorted = column.getIsSorted();
  const right = columnDef.meta?.align === 'right';
  const text = flexRender(columnDef.header, header.getContext());
  return (
    <th
      scope="col"
      role="columnheader"
      title={columnDef.meta?.hint}
      aria-sort={sorted === 'asc' ? 'ascending' : sorted === 'desc' ? 'descending' : undefined}
      className={classes('text-soft px-3 py-2 text-xs font-medium whitespace-nowrap', right && 'text-right')}
    >
      {column.getCanSort() ? (
        <button
          type="button"
          onClick={column.getToggleSortingHandler()}
          className={classes(
            'hover:text-ink -mx-1 -my-1 inline-flex items-center gap-1 rounded px-1',
            sorted !== false && 'text-ink',
            right && 'flex-row-reverse',
          )}
        >
          {text}
          {sorted === 'asc' && <ArrowUp className="size-3" aria-hidden />}
          {sorted === 'desc' && <ArrowDown className="size-3" aria-hidden />}
        </button>
      ) : (
        text
      )}
    </th>
  );
}

interface BodyRowProps {
  readonly row: Row<unknown>;
  /** The row's own object; a new one, or new columns, draw it anew. */
  readonly content: unknown;
  readonly columns: Columns<unknown>;
  readonly onOpen: ((row: unknown) => void) | undefined;
}

const BodyRow = memo(
  function BodyRow({ row, onOpen }: BodyRowProps) {
    return (
      <tr
        role="row"
        data-row={row.id}
        tabIndex={onOpen === undefined ? undefined : 0}
        {...openEvents(row.original, onOpen)}
        className={classes(
          'border-line/60 h-9 border-b',
          onOpen !== undefined && 'hover:bg-raised focus-visible:bg-raised cursor-pointer',
        )}
      >
        {row.getVisibleCells().map((cell) => {
          const { header, meta } = cell.column.columnDef;
          return (
            <td
              key={cell.id}
              role="cell"
              data-label={typeof header === 'string' && meta?.isActions !== true ? header : undefined}
              className={classes(
                'max-w-md truncate px-3 py-1.5',
                meta?.align === 'right' && 'text-right tabular-nums',
                meta?.isState === true && 'is-state',
                meta?.isActions === true && 'is-actions',
              )}
            >
              {flexRender(cell.column.columnDef.cell, cell.getContext())}
            </td>
          );
        })}
      </tr>
    );
  },
  (before, now) =>
    before.content === now.content && before.columns === now.columns && before.onOpen === now.onOpen,
);

function focusRow(row: Element | null | undefined): void {
  if (row instanceof HTMLElement && row.tabIndex === 0) row.focus();
}
