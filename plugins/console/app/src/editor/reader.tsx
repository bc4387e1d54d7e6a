import { type ReactNode, useMemo } from 'react';

interface ReaderProps {
  readonly label: string;
  readonly text: string;
  /** A line in the looks of the editor. */
  readonly coloured: (line: string) => ReactNode;
  /** The pointer or the focus has come: the editor is wanted. */
  readonly onWant: () => void;
  readonly onFocus: (focused: boolean) => void;
}

/** A text in the looks of its editor, before the scripts of the editor are there. */
export function Reader({ label, text, coloured, onWant, onFocus }: ReaderProps) {
  const lines = useMemo(() => text.split('\n'), [text]);
  return (
    <div
      role="textbox"
      aria-label={label}
      aria-multiline
      aria-readonly
      tabIndex={0}
      className="h-full overflow-auto py-1 font-mono text-[13px] leading-[1.6]"
      onPointerEnter={onWant}
      onFocus={() => {
        onFocus(true);
        onWant();
      }}
      onBlur={() => onFocus(false)}
    >
      {lines.map((line, index) => (
        <div key={index} className="flex">
          <span aria-hidden className="text-soft w-12 shrink-0 pr-5 text-right select-none">
            {index + 1}
          </span>
          <code className="min-w-0 break-words whitespace-pre-wrap">{coloured(line)}</code>
        </div>
      ))}
    </div>
  );
}
