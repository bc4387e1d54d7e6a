import {
  memo,
  useLayoutEffect,
  useMemo,
  useRef,
  useSyncExternalStore,
  type KeyboardEvent,
  type ReactNode,
} from 'react';
import { useVirtualizer } from '@tanstack/react-virtual';
import { classes } from '@/lib/classes';
import { openEvents, stepOf, useOpen } from '@/ui/rows';

/** A column of a long table. */
export interface LongColumn<T> {
  readonly id: string;
  readonly header: string;
  /** In CSS; what is left over is shared out. */
  readonly width: string;
  /**
   * Its share of one of the two lines of a row on a telephone: the columns in their order fill the first line, then the
   * second. Columns without one are read in what the row opens.
   */
  readonly narrow?: string;
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

/** Pixels, of a row of one line and of two. */
const rowHeights = { wide: 32, narrow: 52 };
/** Where `max-sm` of the styles holds. */
const telephone = matchMedia('(width < 40rem)');

function listenToWidth(changed: () => void): () => void {
  telephone.addEventListener('change', changed);
  return () => telephone.removeEventListener('change', changed);
}

/** Widths that are no share are those of their longest text: times and numbers are read whole, or not at all. */
function sized({ width, narrow }: Pick<LongColumn<never>, 'width' | 'narrow'>, isNarrow: boolean) {
  if (isNarrow) return { flexBasis: narrow };
  return { flexBasis: width, ...(!width.endsWith('%') && { flexShrink: 0 }) };
}
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
  const { label, rows, rowId, onOpen, onEnd, footer } = props;
  const isNarrow = useSyncExternalStore(listenToWidth, () => telephone.matches);
  const columns = useMemo(
    () => (isNarrow ? props.columns.filter(({ narrow }) => narrow !== undefined) : props.columns),
    [props.columns, isNarrow],
  );
  const rowHeight = isNarrow ? rowHeights.narrow : rowHeights.wide;
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
  useLayoutEffect(() => virtualizer.measure(), [virtualizer, rowHeight]);
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
      <div role="table" className="sm:min-w-[66rem]" aria-label={label} aria-rowcount={rows.length + 1}>
        <div role="rowgroup" className="bg-panel sticky top-0 z-10">
          <div role="row" className="border-line flex border-b max-sm:flex-wrap max-sm:py-1">
            {columns.map((column) => (
              <div
                key={column.id}
                role="columnheader"
                style={sized(column, isNarrow)}
                className={classes(
                  'text-soft min-w-0 grow px-3 py-2 text-xs font-medium whitespace-nowrap max-sm:px-2 max-sm:py-0.5',
                  column.align === 'right' && 'text-right',
                )}
              >
                {column.header}
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
                isNarrow={isNarrow}
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
  readonly isNarrow: boolean;
  readonly onOpen: ((row: unknown) => void) | undefined;
}

/** Is drawn anew when its content or its place changes, and not with each step of scrolling. */
const LongRow = memo(function LongRow(props: LongRowProps) {
  const { id, row, index, columns, isNarrow, onOpen } = props;
  const height = isNarrow ? rowHeights.narrow : rowHeights.wide;
  return (
    <div
      role="row"
      data-row={id}
      aria-rowindex={index + 2}
      style={{ height, top: index * height }}
      tabIndex={0}
      {...openEvents(row, onOpen)}
      className="border-line/60 hover:bg-raised focus-visible:bg-raised absolute flex w-full cursor-pointer border-b [contain:size_layout] max-sm:flex-wrap max-sm:content-center"
    >
      {columns.map((column) => (
        <div
          key={column.id}
          role="cell"
          style={sized(column, isNarrow)}
          className={classes(
            'min-w-0 grow overflow-clip px-3 py-1.5 text-ellipsis whitespace-nowrap max-sm:px-2 max-sm:py-0.5',
            column.align === 'right' && 'text-right tabular-nums',
          )}
        >
          {column.cell(row)}
        </div>
      ))}
    </div>
  );
});
