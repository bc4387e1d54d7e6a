import { memo, useRef, type KeyboardEvent, type ReactNode } from 'react';
import { useVirtualizer } from '@tanstack/react-virtual';
import { classes } from '@/lib/classes';
import { openEvents, stepOf, useOpen } from '@/ui/rows';

/** A column of a long table. */
export interface LongColumn<T> {
  readonly id: string;
  readonly header: string;
  /** In CSS; what is left over is shared out. */
  readonly width: string;
  /** Numbers stand at the right. */
  readonly align?: 'right';
  readonly cell: (row: T) => ReactNode;
}

interface LongTableProps<T> {
  /** Says what the rows are, to readers of the screen. */
  readonly label: string;
  readonly columns: readonly LongColumn<T>[];
  readonly rows: readonly T[];
  readonly rowId: (row: T) => string;
  readonly onOpen: (row: T) => void;
  /** Is called when the end of the rows comes near. */
  readonly onEnd: () => void;
  readonly footer?: ReactNode;
}

/** Pixels. */
const rowHeight = 32;
/** Widths that are no share are those of their longest text: times and numbers are read whole, or not at all. */
const isFixed = (width: string): boolean => !width.endsWith('%');
/** Rows before the end at which more are asked for. */
const nearEnd = 100;

/**
 * A table in a box of its own height, which draws only the rows in sight: ten thousand scroll without a dropped frame.
 * Its rows open with a click or Enter, and are walked with j and k.
 *
 * What a frame costs decides how it is made. A `<table>` is laid out whole when one cell changes, so rows stand at absolute
 * places with a layout of their own (`contain`). Its elements take ten times longer to get their style, whatever their
 * `display` is, so that these are `<div>`s with roles. Cells in a flex row take a third of the layout of those in a grid.
 */
export function LongTable<T>(props: LongTableProps<T>) {
  const { label, columns, rows, rowId, onOpen, onEnd, footer } = props;
  const box = useRef<HTMLDivElement>(null);
  const virtualizer = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => rowHeight,
    overscan: 12,
    onChange: (instance) => {
      const last = instance.getVirtualItems().at(-1);
      if (last !== undefined && last.index >= rows.length - nearEnd) onEnd();
    },
  });
  const items = virtualizer.getVirtualItems();
  // A row that comes into sight is drawn into the element of one that left it.
  const slots = useRef(0);
  slots.current = Math.max(slots.current, items.length);
  const slotted = items.map(({ index }) => ({ index, slot: index % slots.current }));
  // Elements stay where they are while the box scrolls. At rest they follow in the order of their rows, for keyboards and
  // readers of the screen.
  if (virtualizer.isScrolling) slotted.sort((a, b) => a.slot - b.slot);
  const openRow = useOpen(onOpen);

  const walk = (event: KeyboardEvent): void => {
    const step = stepOf(event);
    if (step === 0) return;
    event.preventDefault();
    const row = event.target instanceof HTMLElement ? event.target.closest('[data-row]') : null;
    const number = Number(row?.ariaRowIndex) + step;
    const next = row?.parentElement?.querySelector(`[aria-rowindex="${number}"]`);
    if (next instanceof HTMLElement) next.focus();
  };

  return (
    <div
      ref={box}
      className="min-h-0 min-w-0 grow overflow-auto contain-content"
      tabIndex={0}
      role="region"
      aria-label={label}
    >
      <div role="table" className="min-w-[66rem]" aria-label={label} aria-rowcount={rows.length + 1}>
        <div role="rowgroup" className="bg-panel sticky top-0 z-10">
          <div role="row" className="border-line flex border-b">
            {columns.map(({ id, header, width, align }) => (
              <div
                key={id}
                role="columnheader"
                style={{ flexBasis: width, ...(isFixed(width) && { flexShrink: 0 }) }}
                className={classes(
                  'text-soft min-w-0 grow px-3 py-2 text-xs font-medium whitespace-nowrap',
                  align === 'right' && 'text-right',
                )}
              >
                {header}
              </div>
            ))}
          </div>
        </div>
        <div
          role="rowgroup"
          className="relative"
          style={{ height: virtualizer.getTotalSize() }}
          onKeyDown={walk}
        >
          {slotted.map(({ index, slot }) => {
            const row = rows[index];
            if (row === undefined) return null;
            return (
              <LongRow
                key={slot}
                id={rowId(row)}
                row={row}
                index={index}
                columns={columns as readonly LongColumn<unknown>[]}
                onOpen={openRow as ((row: unknown) => void) | undefined}
              />
            );
          })}
        </div>
      </div>
      {footer}
    </div>
  );
}

interface LongRowProps {
  readonly id: string;
  readonly row: unknown;
  readonly index: number;
  readonly columns: readonly LongColumn<unknown>[];
  readonly onOpen: ((row: unknown) => void) | undefined;
}

/** Is drawn anew when its content or its place changes, and not with each step of scrolling. */
const LongRow = memo(function LongRow({ id, row, index, columns, onOpen }: LongRowProps) {
  return (
    <div
      role="row"
      data-row={id}
      aria-rowindex={index + 2}
      style={{ height: rowHeight, top: index * rowHeight }}
      tabIndex={0}
      {...openEvents(row, onOpen)}
      className="border-line/60 hover:bg-raised focus-visible:bg-raised absolute flex w-full cursor-pointer border-b [contain:size_layout]"
    >
      {columns.map(({ id: column, width, align, cell }) => (
        <div
          key={column}
          role="cell"
          style={{ flexBasis: width, ...(isFixed(width) && { flexShrink: 0 }) }}
          className={classes(
            'min-w-0 grow overflow-clip px-3 py-1.5 text-ellipsis whitespace-nowrap',
            align === 'right' && 'text-right tabular-nums',
          )}
        >
          {cell(row)}
        </div>
      ))}
    </div>
  );
});
