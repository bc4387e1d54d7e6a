import { useAddress } from '@/lib/address';
import { zoneName } from '@/lib/format';
import { usePreferences } from '@/lib/preferences';
import { type Range, type RangeName, rangeNames, searchOf, spanOf } from '@/lib/time-range';
import { fromInput, toInput } from '@/lib/zones';
import { ranges } from '@/texts/ranges';
import { Input, Select } from '@/ui/fields';

interface RangePickerProps {
  readonly range: Range;
  /** The names that are offered. Default: all. */
  readonly names?: readonly RangeName[];
}

/** Chooses the range of time that the address holds. */
export function RangePicker({ range, names = rangeNames }: RangePickerProps) {
  const { change } = useAddress();
  const { zone } = usePreferences();
  const span = spanOf(range, zone);
  const named = zone === 'local' ? ranges.local : zoneName(zone);
  const set = (next: Range): void => change(searchOf(next));
  const custom = (from: number, to: number): void => {
    if (Number.isNaN(from) || Number.isNaN(to)) return;
    set({
      name: 'custom',
      from: new Date(from).toISOString(),
      to: new Date(Math.max(to, from + 60_000)).toISOString(),
    });
  };
  return (
    <div className="flex flex-wrap items-center gap-2">
      <Select
        aria-label={ranges.label}
        className="w-auto"
        value={range.name}
        options={names.map((name) => [name, ranges.names[name]])}
        onChange={(event) => {
          const name = event.target.value as RangeName;
          if (name === 'custom') custom(span.from, span.to);
          else set({ name });
        }}
      />
      {range.name === 'custom' && (
        <>
          <Input
            type="datetime-local"
            className="w-auto"
            aria-label={ranges.from(named)}
            value={toInput(span.from, zone)}
            onChange={(event) => custom(fromInput(event.target.value, zone), span.to)}
          />
          <span aria-hidden>–</span>
          <Input
            type="datetime-local"
            className="w-auto"
            aria-label={ranges.to(named)}
            value={toInput(span.to, zone)}
            onChange={(event) => custom(span.from, fromInput(event.target.value, zone))}
          />
        </>
      )}
    </div>
  );
}
