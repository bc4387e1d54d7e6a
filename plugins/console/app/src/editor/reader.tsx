import { type ReactNode, Suspense, useMemo, useRef, useState } from 'react';

interface ReaderProps {
  /** Says what the text is, to readers of the screen. */
  readonly label: string;
  readonly text: string;
  /** The parts of a line that have a look of the editor, from the left. */
  readonly partsOf: (line: string) => readonly TonedPart[];
  /** The editor is wanted before the pointer or the focus comes. */
  readonly isWanted?: boolean;
  /** The editor, which is loaded then. */
  readonly editor: (takesFocus: () => boolean) => ReactNode;
}

/** From `from` to before `to` in its line. */
interface TonedPart {
  readonly kind: keyof typeof tones;
  readonly from: number;
  readonly to: number;
}

const tones = {
  comment: 'text-soft',
  name: 'text-accent',
  text: 'text-good',
  value: 'text-warn',
} as const;

/**
 * A text that is read at once, and becomes an editor with the first pointer or focus: the scripts of an editor are nine
 * tenths of its page.
 */
export function Reader({ label, text, partsOf, isWanted = false, editor }: ReaderProps) {
  const [isTouched, setTouched] = useState(false);
  const hasFocus = useRef(false);
  const lines = useMemo(() => text.split('\n'), [text]);
  const read = (
    <div
      role="textbox"
      aria-label={label}
      aria-multiline
      aria-readonly
      tabIndex={0}
      className="h-full overflow-auto py-1 font-mono text-[13px] leading-[1.6]"
      // It may have entered what stood here before.
      onPointerMove={() => setTouched(true)}
      onFocus={() => {
        hasFocus.current = true;
        setTouched(true);
      }}
      onBlur={() => (hasFocus.current = false)}
    >
      {lines.map((line, index) => (
        <div key={index} className="flex">
          <span aria-hidden className="text-soft w-12 shrink-0 pr-5 text-right select-none">
            {index + 1}
          </span>
          <code className="min-w-0 break-words whitespace-pre-wrap">{coloured(line, partsOf(line))}</code>
        </div>
      ))}
    </div>
  );
  if (!isTouched && !isWanted) return read;
  return <Suspense fallback={read}>{editor(() => hasFocus.current)}</Suspense>;
}

function coloured(line: string, parts: readonly TonedPart[]): readonly ReactNode[] {
  const shown: ReactNode[] = [];
  let end = 0;
  for (const { kind, from, to } of parts) {
    shown.push(
      line.slice(end, from),
      <span key={from} className={tones[kind]}>
        {line.slice(from, to)}
      </span>,
    );
    end = to;
  }
  return [...shown, line.slice(end)];
}
