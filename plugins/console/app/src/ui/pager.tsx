import type { ReactNode } from 'react';
import { common } from '@/texts/common';
import { Button } from '@/ui/button';

interface PagerProps {
  /** Which rows are shown, of how many. */
  readonly children: ReactNode;
  /** From 0. */
  readonly page: number;
  readonly isLast: boolean;
  readonly onPage: (page: number) => void;
  /** Without buttons, where there is one page. */
  readonly single?: boolean;
}

/** The foot of a table with pages. */
export function Pager({ children, page, isLast, onPage, single = false }: PagerProps) {
  return (
    <div className="text-soft flex items-center gap-2 px-3 py-2 text-xs" aria-live="polite">
      <span className="grow">{children}</span>
      {!single && (
        <>
          <Button disabled={page === 0} onClick={() => onPage(page - 1)}>
            {common.action.previous}
          </Button>
          <Button disabled={isLast} onClick={() => onPage(page + 1)}>
            {common.action.next}
          </Button>
        </>
      )}
    </div>
  );
}
