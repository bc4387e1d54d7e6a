import { useBlocker } from '@tanstack/react-router';
import { common } from '@/texts/common';
import { Confirm } from '@/ui/dialog';

interface UnsavedProps {
  /** Asked when somebody leaves: whether there is something to lose. */
  readonly dirty: () => boolean;
  /** The parameter of the address that has to stay, too. Default: none. */
  readonly within?: string;
}

/** Asks before a page with changes is left for another one; the browser asks before it is reloaded or closed. */
export function Unsaved({ dirty, within }: UnsavedProps) {
  const blocker = useBlocker({
    shouldBlockFn: ({ current, next }) =>
      (current.pathname !== next.pathname || (within !== undefined && !(within in next.search))) && dirty(),
    enableBeforeUnload: dirty,
    withResolver: true,
  });
  return (
    <Confirm
      open={blocker.status === 'blocked'}
      onOpenChange={(open) => !open && blocker.reset?.()}
      {...common.leave}
      onConfirm={() => Promise.resolve(blocker.proceed?.())}
    />
  );
}
