import { useState } from 'react';
import { Command } from 'cmdk';
import { Check } from 'lucide-react';
import { zoneName } from '@/lib/format';
import { usePreferences } from '@/lib/preferences';
import { ianaName, isZone, offsetName } from '@/lib/zones';
import { foundBy } from '@/lib/found';
import { common } from '@/texts/common';
import { zones as texts } from '@/texts/zones';
import { Dialog } from '@/ui/dialog';

/** Zones that Chromium and Safari list by their former names, which few look for. */
const renamed = new Map([
  ['Africa/Asmera', 'Africa/Asmara'],
  ['America/Buenos_Aires', 'America/Argentina/Buenos_Aires'],
  ['America/Cordoba', 'America/Argentina/Cordoba'],
  ['America/Godthab', 'America/Nuuk'],
  ['America/Indianapolis', 'America/Indiana/Indianapolis'],
  ['Asia/Calcutta', 'Asia/Kolkata'],
  ['Asia/Katmandu', 'Asia/Kathmandu'],
  ['Asia/Rangoon', 'Asia/Yangon'],
  ['Asia/Saigon', 'Asia/Ho_Chi_Minh'],
  ['Atlantic/Faeroe', 'Atlantic/Faroe'],
  ['Europe/Kiev', 'Europe/Kyiv'],
]);

/** What is offered, and what finds it; the runtime names about 420. */
function offered(listed: string) {
  const now = renamed.get(listed);
  const zone = now !== undefined && isZone(now) ? now : listed;
  const offset = offsetName(zone);
  const text = zone === 'local' ? common.zone.local : zoneName(zone);
  return { zone, text, offset, words: `${ianaName(zone)} ${listed} ${offset}` };
}

function allZones() {
  const others = Intl.supportedValuesOf('timeZone').filter((name) => name !== 'UTC');
  return ['local', 'utc', ...others].map(offered);
}

/** Chooses the zone that times are shown in, by typing a part of its name. It is loaded when it is opened. */
export default function ZonePicker({ onClose }: { readonly onClose: () => void }) {
  const { zone: chosen, setZone } = usePreferences();
  const [typed, setTyped] = useState('');
  const [all] = useState(allZones);
  return (
    <Dialog open onOpenChange={onClose} title={texts.title} description={texts.text}>
      <Command label={texts.title} loop shouldFilter={false} className="border-line rounded-md border">
        <Command.Input
          autoFocus
          placeholder={texts.hint}
          value={typed}
          onValueChange={setTyped}
          maxLength={60}
          className="border-line h-10 w-full border-b bg-transparent px-3 outline-none"
        />
        <Command.List label={texts.title} className="max-h-72 overflow-y-auto p-1">
          <Command.Empty className="text-soft p-4 text-center">{texts.none}</Command.Empty>
          {foundBy(typed, all).map(({ zone, text, offset }) => (
            <Command.Item
              key={zone}
              value={zone}
              onSelect={() => {
                setZone(zone);
                onClose();
              }}
              className="data-[selected=true]:bg-accent-wash data-[selected=true]:text-accent flex cursor-pointer items-center gap-2 rounded px-3 py-2"
            >
              <span className="w-4 shrink-0">
                {zone === chosen && <Check className="size-4" aria-hidden />}
              </span>
              <span className="min-w-0 grow truncate">{text}</span>
              <span className="text-soft text-xs tabular-nums">{offset}</span>
            </Command.Item>
          ))}
        </Command.List>
      </Command>
    </Dialog>
  );
}
