import { useRef, type KeyboardEvent, type ReactNode } from 'react';
import { flexRender, getCoreRowModel, useReactTable, type ColumnDef } from '@tanstack/react-table';
import { useVirtualizer } from '@tanstack/react-virtual';
import { classes } from '@/lib/classes';

/** The columns of rows of one type. */
export type Columns<T> = ColumnDef<T, unknown>[];

interface DataTableProps<T> {
  /** Says what the rows are, to readers of the screen. */
  readonly label: string;
  readonly columns: Columns<T>;
  readonly rows: readonly T[];
  readonly rowId: (row: T) => string;
  readonly onOpen?: (row: T) => void;
  /** Only the rows in sight are drawn, in a box of its own height: for long lists. */
  readonly virtual?: boolean;
  /** Is called when the end of the rows comes into sight. */
  readonly onEnd?: () => void;
  readonly footer?: ReactNode;
}

const rowHeight = 36;

/** A table whose rows open with a click, Enter, and are walked with j and k. */
export function DataTable<T>(props: DataTableProps<T>) {
  const { label, columns, rows, rowId, onOpen, virtual = false, onEnd, footer } = props;
  const table = useReactTable({
    data: rows as T[],
    columns,
    getCoreRowModel: getCoreRowModel(),
    getRowId: rowId,
  });
  const box = useRef<HTMLDivElement>(null);
  const all = table.getRowModel().rows;
  const virtualizer = useVirtualizer({
    count: all.length,
    enabled: virtual,
    getScrollElement: () => box.current,
    estimateSize: () => rowHeight,
    overscan: 12,
    onChange: (instance) => {
      const last = instance.getVirtualItems().at(-1);
      if (last !== undefined && last.index >= all.length - 5) onEnd?.();
    },
  });
  const items = virtual ? virtualizer.getVirtualItems() : undefined;
  const before = items?.[0]?.start ?? 0;
  const after = items === undefined ? 0 : virtualizer.getTotalSize() - (items.at(-1)?.end ?? 0);
  const shown = items === undefined ? all : items.flatMap((item) => all[item.index] ?? []);

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
      className={classes('min-w-0 overflow-auto', virtual && 'min-h-0 grow')}
      tabIndex={virtual ? 0 : undefined}
    >
      <table
        className="w-full border-collapse text-left"
        aria-label={label}
        aria-rowcount={virtual ? all.length : undefined}
      >
        <thead className="bg-panel sticky top-0 z-10">
          {table.getHeaderGroups().map((group) => (
            <tr key={group.id} className="border-line border-b">
              {group.headers.map((header) => (
                <th
                  key={header.id}
                  scope="col"
                  className="text-soft px-3 py-2 text-xs font-medium whitespace-nowrap"
                >
                  {flexRender(header.column.columnDef.header, header.getContext())}
                </th>
              ))}
            </tr>
          ))}
        </thead>
        <tbody onKeyDown={walk}>
          {before > 0 && <tr aria-hidden style={{ height: before }} />}
          {shown.map((row) => (
            <tr
              key={row.id}
              data-row={row.id}
              tabIndex={onOpen === undefined ? undefined : 0}
              onClick={() => onOpen?.(row.original)}
              onKeyDown={(event) => {
                if (event.key === 'Enter' && event.target === event.currentTarget) onOpen?.(row.original);
              }}
              className={classes(
                'border-line/60 h-9 border-b',
                onOpen !== undefined && 'hover:bg-raised focus-visible:bg-raised cursor-pointer',
              )}
            >
              {row.getVisibleCells().map((cell) => (
                <td key={cell.id} className="max-w-md truncate px-3 py-1.5">
                  {flexRender(cell.column.columnDef.cell, cell.getContext())}
                </td>
              ))}
            </tr>
          ))}
          {after > 0 && <tr aria-hidden style={{ height: after }} />}
        </tbody>
      </table>
      {footer}
    </div>
  );
}

function focusRow(row: Element | null | undefined): void {
  if (row instanceof HTMLElement && row.tabIndex === 0) row.focus();
}
