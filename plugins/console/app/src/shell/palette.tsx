import { useState } from 'react';
import { useNavigate } from '@tanstack/react-router';
import { Command } from 'cmdk';
import { Dialog } from 'radix-ui';
import { useSession } from '@/api/session';
import { useFocusReturn } from '@/lib/focus';
import { usePreferences } from '@/lib/preferences';
import { foundBy } from '@/lib/found';
import { PaletteFound } from '@/shell/palette-found';
import { useVisiblePlaces } from '@/shell/places';
import { common } from '@/texts/common';

interface PaletteProps {
  readonly open: boolean;
  readonly onOpenChange: (open: boolean) => void;
  /** Leads to the choice of the time zone. */
  readonly onZone: () => void;
}

/** Goes to any place or record, and does what has no place, by typing. */
export function Palette({ open, onOpenChange, onZone }: PaletteProps) {
  const navigate = useNavigate();
  const focus = useFocusReturn();
  const visible = useVisiblePlaces();
  const { signOut } = useSession();
  const { isDark, setLook, zone, setZone } = usePreferences();
  const [typed, setTyped] = useState('');
  const pages = foundBy(typed, visible);
  const actions = foundBy(typed, [
    {
      text: common.look.change(isDark ? common.look.light : common.look.dark),
      ...{ words: common.words.look, act: () => setLook(isDark ? 'light' : 'dark') },
    },
    {
      text: common.zone.shown(zone === 'utc' ? common.zone.local : common.zone.utc),
      ...{ words: common.words.zone, act: () => setZone(zone === 'utc' ? 'local' : 'utc') },
    },
    { text: common.zone.choose, words: common.words.zone, act: onZone },
    { text: common.signOut, act: () => signOut() },
  ]);
  const item =
    'flex items-center gap-2 rounded px-3 py-2 cursor-pointer data-[selected=true]:bg-accent-wash data-[selected=true]:text-accent';
  const change = (next: boolean): void => {
    setTyped('');
    onOpenChange(next);
  };
  const run = (action: () => unknown) => (): void => {
    change(false);
    action();
  };
  return (
    <Dialog.Root open={open} onOpenChange={change}>
      <Dialog.Portal>
        <Dialog.Overlay className="fixed inset-0 z-40 bg-black/50" />
        <Dialog.Content
          {...focus}
          aria-describedby={undefined}
          className="border-line bg-panel fixed top-[12vh] left-1/2 z-50 w-[min(92vw,36rem)] -translate-x-1/2 rounded-lg border shadow-xl"
        >
          <Dialog.Title className="sr-only">{common.palette.open}</Dialog.Title>
          <Command label={common.palette.open} loop shouldFilter={false}>
            <Command.Input
              placeholder={common.palette.hint}
              value={typed}
              onValueChange={setTyped}
              maxLength={200}
              className="border-line h-11 w-full border-b bg-transparent px-3 outline-none"
            />
            <Command.List label={common.palette.open} className="max-h-80 overflow-y-auto p-1">
              <Command.Empty className="text-soft p-4 text-center">{common.palette.none}</Command.Empty>
              {pages.length > 0 && (
                <Command.Group heading={common.palette.pages} className="text-soft text-xs">
                  {pages.map(({ path, text, icon: Icon }) => (
                    <Command.Item
                      key={path}
                      value={path}
                      onSelect={run(() => navigate({ to: path }))}
                      className={`${item} text-ink text-sm`}
                    >
                      <Icon className="size-4" aria-hidden />
                      {text}
                    </Command.Item>
                  ))}
                </Command.Group>
              )}
              {actions.length > 0 && (
                <Command.Group heading={common.palette.actions} className="text-soft text-xs">
                  {actions.map(({ text, act }) => (
                    <Command.Item
                      key={text}
                      value={text}
                      onSelect={run(act)}
                      className={`${item} text-ink text-sm`}
                    >
                      {text}
                    </Command.Item>
                  ))}
                </Command.Group>
              )}
              <PaletteFound text={typed.trim()} item={item} run={run} />
            </Command.List>
          </Command>
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
