import { classes } from '@/lib/classes';
import { differenceOf } from '@/lib/difference';
import { common } from '@/texts/common';

interface DifferenceProps {
  /** Says what is compared, to readers of the screen. */
  readonly label: string;
  readonly before: string;
  readonly after: string;
}

const signs = { same: ' ', added: '+', removed: '−' } as const;
const looks = { same: '', added: 'bg-good-wash text-good', removed: 'bg-bad-wash text-bad' } as const;

/** Two texts as one, line by line: what is gone has a minus, what is new a plus. */
export function Difference({ label, before, after }: DifferenceProps) {
  if (before === after) return <p className="text-soft p-3">{common.difference.none}</p>;
  return (
    <div
      role="region"
      aria-label={label}
      tabIndex={0}
      className="border-line max-h-[32rem] overflow-auto rounded-md border py-1 font-mono text-xs"
    >
      {differenceOf(before, after).map(({ kind, text }, index) => (
        <div key={index} className={classes('flex gap-2 px-2', looks[kind])}>
          <span aria-hidden className="w-3 shrink-0 select-none">
            {signs[kind]}
          </span>
          {kind !== 'same' && <span className="sr-only">{common.difference[kind]}</span>}
          <span className="min-w-0 break-words whitespace-pre-wrap">{text === '' ? ' ' : text}</span>
        </div>
      ))}
    </div>
  );
}
