import { createContext, useCallback, useContext, useMemo, useRef, useState, type ReactNode } from 'react';
import { Toast } from 'radix-ui';
import { X } from 'lucide-react';
import { classes } from '@/lib/classes';
import { common } from '@/texts/common';
import { Button, IconButton } from '@/ui/button';

interface Message {
  readonly text: string;
  readonly tone?: 'good' | 'bad';
  /** Takes back what was just done. */
  readonly undo?: () => void;
}

const Context = createContext<((message: Message) => void) | undefined>(undefined);
const mostShown = 4;

/** Short messages in a corner: what was done, and how it is taken back. */
export function ToastProvider({ children }: { readonly children: ReactNode }) {
  const [shown, setShown] = useState<readonly (Message & { readonly id: number })[]>([]);
  const next = useRef(0);
  const say = useCallback((message: Message) => {
    next.current += 1;
    const id = next.current;
    setShown((before) => [...before.slice(1 - mostShown), { ...message, id }]);
  }, []);
  const remove = (id: number): void => setShown((before) => before.filter((one) => one.id !== id));
  const value = useMemo(() => say, [say]);
  return (
    <Context.Provider value={value}>
      <Toast.Provider duration={6000} label={common.toast.one}>
        {children}
        {shown.map(({ id, text, tone, undo }) => (
          <Toast.Root
            key={id}
            onOpenChange={(open) => !open && remove(id)}
            className={classes(
              'border-line bg-panel flex items-center gap-3 rounded-lg border px-4 py-3 shadow-lg',
              tone === 'bad' && 'border-bad/60',
            )}
          >
            <Toast.Title className="grow">{text}</Toast.Title>
            {undo !== undefined && (
              <Toast.Action altText={common.action.undo} asChild>
                <Button onClick={undo}>{common.action.undo}</Button>
              </Toast.Action>
            )}
            <Toast.Close asChild>
              <IconButton label={common.action.close}>
                <X className="size-4" />
              </IconButton>
            </Toast.Close>
          </Toast.Root>
        ))}
        <Toast.Viewport
          label={common.toast.all}
          className="fixed right-4 bottom-4 z-60 flex w-96 max-w-[calc(100vw-2rem)] flex-col gap-2"
        />
      </Toast.Provider>
    </Context.Provider>
  );
}

export function useToast(): (message: Message) => void {
  const say = useContext(Context);
  if (say === undefined) throw new Error('Messages are used outside of their provider.');
  return say;
}
