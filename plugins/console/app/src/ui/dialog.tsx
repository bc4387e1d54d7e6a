import { useState, type ReactNode } from 'react';
import { AlertDialog as Alert, Dialog as Base } from 'radix-ui';
import { X } from 'lucide-react';
import { ApiError } from '@/api/client';
import { classes } from '@/lib/classes';
import { useFocusReturn } from '@/lib/focus';
import { common } from '@/texts/common';
import { Button, IconButton } from '@/ui/button';
import { Input } from '@/ui/fields';
import { Sentence } from '@/ui/small';

const veil = 'fixed inset-0 z-40 bg-black/50';
const center =
  'fixed top-1/2 left-1/2 z-50 w-[min(92vw,34rem)] -translate-x-1/2 -translate-y-1/2 rounded-lg border border-line bg-panel p-5 shadow-xl';

interface DialogProps {
  readonly open: boolean;
  readonly onOpenChange: (open: boolean) => void;
  readonly title: string;
  readonly description?: ReactNode;
  /** `side`: a sheet at the right edge, for long forms and details. */
  readonly place?: 'center' | 'wide' | 'side';
  readonly children: ReactNode;
}

export function Dialog({ open, onOpenChange, title, description, place = 'center', children }: DialogProps) {
  const focus = useFocusReturn();
  const side = 'fixed inset-y-0 right-0 z-50 w-[min(96vw,46rem)] border-l border-line bg-panel p-5 shadow-xl';
  return (
    <Base.Root open={open} onOpenChange={onOpenChange}>
      <Base.Portal>
        <Base.Overlay className={veil} />
        <Base.Content
          aria-describedby={description === undefined ? undefined : ''}
          onCloseAutoFocus={focus.onCloseAutoFocus}
          onOpenAutoFocus={(event) => {
            focus.onOpenAutoFocus();
            // Not the button that closes it, which is the first.
            event.preventDefault();
            if (event.currentTarget instanceof HTMLElement) event.currentTarget.focus();
          }}
          className={classes(
            place === 'side' ? side : center,
            place === 'wide' && 'w-[min(94vw,60rem)]',
            'flex max-h-dvh flex-col gap-4 overflow-y-auto outline-none',
            place !== 'side' && 'max-h-[90dvh]',
          )}
        >
          <div className="flex items-start gap-3">
            <div className="min-w-0 grow wrap-anywhere">
              <Base.Title className="text-lg font-semibold">{title}</Base.Title>
              {description !== undefined && (
                <Base.Description asChild>
                  <div className="text-soft">{description}</div>
                </Base.Description>
              )}
            </div>
            <Base.Close asChild>
              <IconButton label={common.action.close}>
                <X className="size-4" />
              </IconButton>
            </Base.Close>
          </div>
          {children}
        </Base.Content>
      </Base.Portal>
    </Base.Root>
  );
}

interface DialogButtonsProps {
  readonly onCancel: () => void;
  /** The text of the button that does nothing; by default that it cancels. */
  readonly cancel?: string;
  /** The text of the button that does it; by default that it saves. */
  readonly submit?: string;
  /** Without it the button sends the form that it stands in. */
  readonly onSubmit?: () => void;
  readonly busy: boolean;
  readonly disabled?: boolean;
}

/** What ends a dialog: nothing, or what it is for. */
export function DialogButtons(props: DialogButtonsProps) {
  const {
    onCancel,
    cancel = common.action.cancel,
    submit = common.action.save,
    onSubmit,
    busy,
    disabled,
  } = props;
  return (
    <div className="flex justify-end gap-2">
      <Button onClick={onCancel}>{cancel}</Button>
      <Button
        kind="primary"
        type={onSubmit === undefined ? 'submit' : 'button'}
        {...{ busy, disabled }}
        onClick={onSubmit}
      >
        {submit}
      </Button>
    </div>
  );
}

interface ConfirmProps {
  readonly open: boolean;
  readonly onOpenChange: (open: boolean) => void;
  readonly title: string;
  /** The loss, and whether it can be undone. */
  readonly text: ReactNode;
  /** Text of the button that does it. */
  readonly action: string;
  /** The user types this first: for what cannot be had back. */
  readonly typed?: string;
  readonly onConfirm: () => Promise<unknown>;
}

/** Asks before something is destroyed. It stays open, with the reason, when the gateway refuses. */
export function Confirm({ open, onOpenChange, title, text, action, typed, onConfirm }: ConfirmProps) {
  const focus = useFocusReturn();
  const [busy, setBusy] = useState(false);
  const [fault, setFault] = useState<string>();
  const [text1, setText] = useState('');
  const confirm = async (): Promise<void> => {
    setBusy(true);
    setFault(undefined);
    try {
      await onConfirm();
      onOpenChange(false);
      setText('');
    } catch (error) {
      setFault(error instanceof ApiError ? error.message : String(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <Alert.Root open={open} onOpenChange={onOpenChange}>
      <Alert.Portal>
        <Alert.Overlay className={veil} />
        <Alert.Content
          {...focus}
          className={classes(center, 'flex max-h-[90dvh] flex-col gap-4 overflow-y-auto wrap-anywhere')}
        >
          <Alert.Title className="text-lg font-semibold">{title}</Alert.Title>
          <Alert.Description asChild>
            <div className="text-soft">{text}</div>
          </Alert.Description>
          {typed !== undefined && (
            <label className="grid gap-1">
              <span>
                <Sentence text={common.typed} parts={[<code className="font-mono">{typed}</code>]} />
              </span>
              <Input value={text1} onChange={(event) => setText(event.target.value)} />
            </label>
          )}
          {fault !== undefined && (
            <p role="alert" className="text-bad">
              {fault}
            </p>
          )}
          <div className="flex justify-end gap-2">
            <Alert.Cancel asChild>
              <Button>{common.action.cancel}</Button>
            </Alert.Cancel>
            <Button
              kind="danger"
              busy={busy}
              disabled={typed !== undefined && text1 !== typed}
              onClick={() => void confirm()}
            >
              {action}
            </Button>
          </div>
        </Alert.Content>
      </Alert.Portal>
    </Alert.Root>
  );
}
