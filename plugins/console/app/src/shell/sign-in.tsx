import { useState, type FormEvent, type ReactNode } from 'react';
import { Dialog } from 'radix-ui';
import { ApiError } from '@/api/client';
import { facts } from '@/api/facts';
import { useSession } from '@/api/session';
import { common } from '@/texts/common';
import { Button } from '@/ui/button';
import { Field, Input } from '@/ui/fields';

const texts = common.signIn;

/** What a browser without a session sees, whatever its address; the address stays, and shows its page afterwards. */
export function SignIn() {
  return (
    <main className="grid min-h-dvh place-items-center p-4">
      <SignInForm title={(text) => <h1 className="text-xl font-semibold">{text}</h1>} />
    </main>
  );
}

/** The same over a page whose session has ended: what was typed there stays. */
export function SignInAgain() {
  return (
    <Dialog.Root open>
      <Dialog.Portal>
        <Dialog.Content
          aria-describedby={undefined}
          onEscapeKeyDown={(event) => event.preventDefault()}
          className="bg-canvas fixed inset-0 z-70 grid place-items-center overflow-y-auto p-4 outline-none"
        >
          <SignInForm
            title={(text) => <Dialog.Title className="text-xl font-semibold">{text}</Dialog.Title>}
          />
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

interface FormProps {
  readonly title: (text: string) => ReactNode;
}

function SignInForm({ title }: FormProps) {
  const { signIn, ended, left } = useSession();
  const [key, setKey] = useState('');
  const [fault, setFault] = useState<string>();
  const [busy, setBusy] = useState(false);
  const submit = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setFault(undefined);
    try {
      await signIn(key.trim());
    } catch (error) {
      setFault(error instanceof ApiError ? error.message : String(error));
      setBusy(false);
    }
  };
  const away = `/console/sign-in?to=${encodeURIComponent(location.pathname + location.search)}`;
  return (
    <form
      onSubmit={(event) => void submit(event)}
      className="border-line bg-panel grid w-full max-w-sm gap-4 rounded-lg border p-6"
    >
      {title(texts.heading(common.product))}
      {(ended || left !== undefined) && (
        <p role="status" className="bg-warn-wash text-warn rounded p-2">
          {ended ? texts.ended : left}
        </p>
      )}
      <p className="text-soft">{texts.intro}</p>
      <Field label={texts.key} help={texts.where} fault={fault}>
        {(control) => (
          <Input
            {...control}
            type="password"
            autoComplete="current-password"
            autoFocus
            required
            placeholder={`${facts.keyPrefix}…`}
            value={key}
            onChange={(event) => setKey(event.target.value)}
          />
        )}
      </Field>
      <Button kind="primary" type="submit" busy={busy}>
        {texts.button}
      </Button>
      {facts.signIn !== null && (
        <>
          <p className="text-soft text-center">{texts.or}</p>
          <a
            href={away}
            className="border-line hover:bg-raised inline-flex h-8 items-center justify-center rounded-md border font-medium"
          >
            {facts.signIn}
          </a>
        </>
      )}
    </form>
  );
}
