import { useEffect, type ReactNode } from 'react';
import { classes } from '@/lib/classes';
import { common } from '@/texts/common';

interface PageProps {
  readonly title: string;
  /** What this page is for, in a sentence. */
  readonly intro?: ReactNode;
  /** Buttons at the right of the title. */
  readonly actions?: ReactNode;
  /** It uses the whole height, and scrolls within. */
  readonly full?: boolean;
  readonly children: ReactNode;
}

/** The frame of every page: its title names the window as well. */
export function Page({ title, intro, actions, full = false, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · ${common.product}`;
  }, [title]);
  return (
    <div
      className={classes('mx-auto flex w-full max-w-[110rem] flex-col gap-4 p-5', full && 'h-full min-h-0')}
    >
      <div className="flex flex-wrap items-start gap-3">
        <div className="min-w-64 flex-1">
          <h1 className="text-xl font-semibold break-words">{title}</h1>
          {intro !== undefined && <p className="text-soft max-w-prose">{intro}</p>}
        </div>
        {actions !== undefined && <div className="flex flex-wrap items-center gap-2">{actions}</div>}
      </div>
      {children}
    </div>
  );
}

interface CardProps {
  readonly title?: ReactNode;
  readonly actions?: ReactNode;
  readonly className?: string;
  readonly children: ReactNode;
}

export function Card({ title, actions, className, children }: CardProps) {
  return (
    <section className={classes('border-line bg-panel min-w-0 rounded-lg border', className)}>
      {(title !== undefined || actions !== undefined) && (
        <div className="border-line flex items-center gap-2 border-b px-4 py-2.5">
          <h2 className="grow font-semibold">{title}</h2>
          {actions}
        </div>
      )}
      {children}
    </section>
  );
}
