import type { ButtonHTMLAttributes, ReactNode } from 'react';
import { Tooltip } from 'radix-ui';
import { classes } from '@/lib/classes';

type Kind = 'primary' | 'plain' | 'quiet' | 'danger';

const looks: Record<Kind, string> = {
  primary: 'bg-accent text-accent-ink border-transparent hover:brightness-95',
  plain: 'bg-panel text-ink border-line hover:bg-raised',
  quiet: 'bg-transparent text-ink border-transparent hover:bg-raised',
  danger: 'bg-panel text-bad border-bad/50 hover:bg-bad-wash',
};

interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  readonly kind?: Kind;
  /** It works now: it cannot be pressed again, and says so to readers of the screen. */
  readonly busy?: boolean;
}

export function Button({ kind = 'plain', busy = false, className, disabled, type, ...rest }: ButtonProps) {
  return (
    <button
      {...rest}
      type={type ?? 'button'}
      disabled={disabled === true || busy}
      aria-busy={busy || undefined}
      className={classes(
        'inline-flex h-8 items-center justify-center gap-1.5 rounded-md border px-3 font-medium whitespace-nowrap disabled:opacity-50',
        looks[kind],
        className,
      )}
    />
  );
}

interface IconButtonProps extends Omit<ButtonProps, 'children'> {
  /** Says what it does, to readers of the screen and as a tooltip. */
  readonly label: string;
  readonly children: ReactNode;
}

/** A button that shows an icon alone. */
export function IconButton({ label, className, kind = 'quiet', ...rest }: IconButtonProps) {
  return (
    <Tooltip.Root delayDuration={400}>
      <Tooltip.Trigger asChild>
        <Button
          {...rest}
          kind={kind}
          aria-label={label}
          className={classes('w-8 shrink-0 px-0', className)}
        />
      </Tooltip.Trigger>
      <Tooltip.Portal>
        <Tooltip.Content sideOffset={4} className="bg-ink text-canvas z-50 rounded px-2 py-1 text-xs">
          {label}
        </Tooltip.Content>
      </Tooltip.Portal>
    </Tooltip.Root>
  );
}
