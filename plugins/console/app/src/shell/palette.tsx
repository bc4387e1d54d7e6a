import { useNavigate } from '@tanstack/react-router';
import { Command } from 'cmdk';
import { Dialog } from 'radix-ui';
import { useSession } from '@/api/session';
import { useFocusReturn } from '@/lib/focus';
import { usePreferences } from '@/lib/preferences';
import { useVisiblePlaces } from '@/shell/places';
import { common } from '@/texts/common';

interface PaletteProps {
  readonly open: boolean;
  readonly onOpenChange: (open: boolean) => void;
}

/** Goes to any place, and does what has no place, by typing. */
export function Palette({ open, onOpenChange }: PaletteProps) {
  const navigate = useNavigate();
  const focus = useFocusReturn();
  const visible = useVisiblePlaces();
  const { signOut } = useSession();
  const { isDark, setLook, zone, setZone } = usePreferences();
  const item =
    'flex items-center gap-2 rounded px-3 py-2 cursor-pointer data-[selected=true]:bg-accent-wash data-[selected=true]:text-accent';
  const run = (action: () => unknown) => (): void => {
    onOpenChange(false);
    action();
  };
  return (
    <Dialog.Root open={open} onOpenChange={onOpenChange}>
      <Dialog.Portal>
        <Dialog.Overlay className="fixed inset-0 z-40 bg-black/50" />
        <Dialog.Content
          {...focus}
          aria-describedby={undefined}
          className="border-line bg-panel fixed top-[12vh] left-1/2 z-50 w-[min(92vw,36rem)] -translate-x-1/2 rounded-lg border shadow-xl"
        >
          <Dialog.Title className="sr-only">{common.palette.open}</Dialog.Title>
          <Command label={common.palette.open} loop>
            <Command.Input
              placeholder={common.palette.hint}
              className="border-line h-11 w-full border-b bg-transparent px-3 outline-none"
            />
            <Command.List label={common.palette.open} className="max-h-80 overflow-y-auto p-1">
              <Command.Empty className="text-soft p-4 text-center">{common.palette.none}</Command.Empty>
              <Command.Group heading={common.palette.pages} className="text-soft text-xs">
                {visible.map(({ path, text, words, icon: Icon }) => (
                  <Command.Item
                    key={path}
                    value={`${text} ${words ?? ''}`}
                    onSelect={run(() => navigate({ to: path }))}
                    className={`${item} text-ink text-sm`}
                  >
                    <Icon className="size-4" aria-hidden />
                    {text}
                  </Command.Item>
                ))}
              </Command.Group>
              <Command.Group heading={common.palette.actions} className="text-soft text-xs">
                <Command.Item
                  value={`${common.look.name} ${common.words.look}`}
                  className={`${item} text-ink text-sm`}
                  onSelect={run(() => setLook(isDark ? 'light' : 'dark'))}
                >
                  {common.look.name}: {isDark ? common.look.light : common.look.dark}
                </Command.Item>
                <Command.Item
                  value={`${common.zone.name} ${common.words.zone}`}
                  className={`${item} text-ink text-sm`}
                  onSelect={run(() => setZone(zone === 'utc' ? 'local' : 'utc'))}
                >
                  {common.zone.name}: {zone === 'utc' ? common.zone.local : common.zone.utc}
                </Command.Item>
                <Command.Item
                  value={common.signOut}
                  className={`${item} text-ink text-sm`}
                  onSelect={run(() => signOut())}
                >
                  {common.signOut}
                </Command.Item>
              </Command.Group>
            </Command.List>
          </Command>
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
