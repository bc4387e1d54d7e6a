import { memo, useMemo, useRef, type KeyboardEvent, type ReactNode } from 'react';
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
import { useVirtualizer } from '@tanstack/react-virtual';
import { ArrowDown, ArrowUp } from 'lucide-react';
import { classes } from '@/lib/classes';

declare module '@tanstack/react-table' {
  // The names of the parameters are those of the library.
  interface ColumnMeta<TData extends RowData, TValue> {
    /** Numbers stand at the right. */
    readonly align?: 'right';
    /** Width of the column where only the rows in sight are drawn, as CSS. Default: what is left over. */
    readonly width?: string;
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
  /** Only the rows in sight are drawn, in a box of its own height: for long lists, which are not sorted here. */
  readonly virtual?: boolean;
  /** Is called when the end of the rows comes near. */
  readonly onEnd?: () => void;
  /** With it, columns with a value (`accessorFn`, `accessorKey`) are sorted by a click on their head. */
  readonly sort?: Sort;
  readonly onSort?: (sort: Sort) => void;
  readonly footer?: ReactNode;
}

/** Of a row where only those in sight are drawn, pixels. */
const rowHeight = 32;
/** Rows before the end at which more are asked for. */
const nearEnd = 100;

/** A table whose rows open with a click, Enter, and are walked with j and k. */
export function DataTable<T>(props: DataTableProps<T>) {
  const { label, columns, rows, rowId, onOpen, virtual = false, onEnd, sort, onSort, footer } = props;
  const box = useRef<HTMLDivElement>(null);
  const virtualizer = useVirtualizer({
    count: rows.length,
    enabled: virtual,
    getScrollElement: () => box.current,
    estimateSize: () => rowHeight,
    overscan: 12,
    onChange: (instance) => {
      const last = instance.getVirtualItems().at(-1);
      if (last !== undefined && last.index >= rows.length - nearEnd) onEnd?.();
    },
  });
  const items = virtual ? virtualizer.getVirtualItems() : undefined;
  const first = items?.[0]?.index ?? 0;
  const end = items === undefined ? rows.length : (items.at(-1)?.index ?? -1) + 1;
  const before = items?.[0]?.start ?? 0;
  const after = items === undefined ? 0 : virtualizer.getTotalSize() - (items.at(-1)?.end ?? 0);
  // The table knows the rows in sight alone: a model of ten thousand would be made anew with each page of them.
  const data = useMemo(() => (virtual ? rows.slice(first, end) : (rows as T[])), [virtual, rows, first, end]);
  const sorting = useMemo(() => (sort === undefined ? [] : [{ ...sort }]), [sort]);
  const table = useReactTable({
    data,
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
  const shown = table.getRowModel().rows;
  // Rows that come into sight are drawn into the elements of those that left it.
  const places = useRef(0);
  places.current = Math.max(places.current, shown.length);
  // Rows are drawn anew when their content changes, and not with each step of scrolling.
  const open = useRef(onOpen);
  open.current = onOpen;
  const openRow = useMemo(
    () => (onOpen === undefined ? undefined : (row: T) => open.current?.(row)),
    [onOpen === undefined],
  );

  const walk = (event: KeyboardEvent): void => {
    const row = event.target instanceof HTMLElement ? event.target.closest('tr') : null;
    if (event.key === 'j' || event.key === 'ArrowDown') focusRow(row?.nextElementSibling);
    else if (event.key === 'k' || event.key === 'ArrowUp') focusRow(row?.previousElementSibling);
    else return;
    event.preventDefault();
  };

  return (
    <div
      ref={box}
      className={classes('min-w-0 overflow-auto', virtual && 'min-h-0 grow contain-content')}
      tabIndex={virtual ? 0 : undefined}
      role={virtual ? 'region' : undefined}
      aria-label={virtual ? label : undefined}
    >
      <table
        className={classes('w-full border-collapse text-left', virtual && 'min-w-[60rem] table-fixed')}
        aria-label={label}
        aria-rowcount={virtual ? rows.length + 1 : undefined}
      >
        {virtual && (
          <colgroup>
            {table.getVisibleLeafColumns().map(({ id, columnDef }) => (
              <col key={id} style={{ width: columnDef.meta?.width }} />
            ))}
          </colgroup>
        )}
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
          {before > 0 && <tr aria-hidden style={{ height: before }} />}
          {shown.map((row, index) => (
            <BodyRow
              key={virtual ? (first + index) % places.current : row.id}
              row={row as Row<unknown>}
              content={row.original}
              columns={columns as Columns<unknown>}
              number={virtual ? first + index + 2 : undefined}
              onOpen={openRow as ((row: unknown) => void) | undefined}
            />
          ))}
          {after > 0 && <tr aria-hidden style={{ height: after }} />}
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
            'hover:text-ink -mx-1 inline-flex items-center gap-1 rounded px-1',
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
  readonly number: number | undefined;
  readonly onOpen: ((row: unknown) => void) | undefined;
}

const BodyRow = memo(
  function BodyRow({ row, number, onOpen }: BodyRowProps) {
    return (
      <tr
        data-row={row.id}
        aria-rowindex={number}
        style={number === undefined ? undefined : { height: rowHeight }}
        tabIndex={onOpen === undefined ? undefined : 0}
        onClick={() => {
          // A text that was just marked is to be copied.
          if (getSelection()?.isCollapsed !== false) onOpen?.(row.original);
        }}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && event.target === event.currentTarget) onOpen?.(row.original);
        }}
        className={classes(
          'border-line/60 border-b',
          number === undefined && 'h-9',
          onOpen !== undefined && 'hover:bg-raised focus-visible:bg-raised cursor-pointer',
        )}
      >
        {row.getVisibleCells().map((cell) => (
          <td
            key={cell.id}
            className={classes(
              'max-w-md truncate px-3 py-1.5',
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
    before.content === now.content &&
    before.columns === now.columns &&
    before.number === now.number &&
    before.onOpen === now.onOpen,
);

function focusRow(row: Element | null | undefined): void {
  if (row instanceof HTMLElement && row.tabIndex === 0) row.focus();
}
