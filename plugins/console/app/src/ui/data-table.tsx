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

/** A table whose rows open with a click, Enter, and are walked with j and k. */
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
      <table className="w-full border-collapse text-left" aria-label={label}>
        <thead className="bg-panel sticky top-0 z-10">
          {table.getHeaderGroups().map((group) => (
            <tr key={group.id} className="border-line border-b">
              {group.headers.map((header) => (
                <Head key={header.id} header={header} />
              ))}
            </tr>
          ))}
        </thead>
        <tbody onKeyDown={walk}>
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
        data-row={row.id}
        tabIndex={onOpen === undefined ? undefined : 0}
        {...openEvents(row.original, onOpen)}
        className={classes(
          'border-line/60 h-9 border-b',
          onOpen !== undefined && 'hover:bg-raised focus-visible:bg-raised cursor-pointer',
        )}
      >
        {row.getVisibleCells().map((cell) => (
          <td
            key={cell.id}
            className={classes(
              'max-w-56 truncate px-3 py-1.5 sm:max-w-md',
              cell.column.columnDef.meta?.align === 'right' && 'text-right tabular-nums',
            )}
          >
            {flexRender(cell.column.columnDef.cell, cell.getContext())}
          </td>
        ))}
      </tr>
    );
  },
  (before, now) =>
    before.content === now.content && before.columns === now.columns && before.onOpen === now.onOpen,
);

function focusRow(row: Element | null | undefined): void {
  if (row instanceof HTMLElement && row.tabIndex === 0) row.focus();
}
