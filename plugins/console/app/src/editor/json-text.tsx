import { lazy, Suspense, useImperativeHandle, useMemo, useRef, useState } from 'react';
import type { EditorHandle, JsonEditorProps } from '@/editor/json-editor';

const JsonEditor = lazy(() => import('@/editor/json-editor'));

/**
 * A text of JSON that is read at once, and becomes an editor with the first pointer or focus: the scripts of the editor
 * are nine tenths of its page.
 */
export function JsonText({ handle, ...props }: JsonEditorProps) {
  const [isWanted, setWanted] = useState(false);
  const editor = useRef<EditorHandle>(null);
  /** JSON pointer that is shown once the editor is there. */
  const pending = useRef<string>(undefined);
  const hasFocus = useRef(false);

  useImperativeHandle(handle, () => ({
    reveal(pointer) {
      if (editor.current !== null) return editor.current.reveal(pointer);
      pending.current = pointer;
      setWanted(true);
    },
  }));

  const whenMade = (made: EditorHandle | null): void => {
    editor.current = made;
    if (made === null || pending.current === undefined) return;
    made.reveal(pending.current);
    pending.current = undefined;
  };

  const reader = (
    <Reader
      label={props.label}
      text={props.value}
      onWant={() => setWanted(true)}
      onFocus={(focused) => (hasFocus.current = focused)}
    />
  );
  if (!isWanted) return reader;
  return (
    <Suspense fallback={reader}>
      <JsonEditor {...props} handle={whenMade} takesFocus={() => hasFocus.current} />
    </Suspense>
  );
}

interface ReaderProps {
  readonly label: string;
  readonly text: string;
  readonly onWant: () => void;
  readonly onFocus: (focused: boolean) => void;
}

/** Names, texts, and other values of a line of JSON. */
const pieces = /("(?:[^"\\]|\\.)*"?)(\s*:)?|(-?\d[\d.eE+-]*|true|false|null)/g;

/** The text in the looks of the editor. */
function Reader({ label, text, onWant, onFocus }: ReaderProps) {
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

function coloured(line: string) {
  const shown = [];
  let end = 0;
  for (const found of line.matchAll(pieces)) {
    const [whole, string, colon = ''] = found;
    const tone = string === undefined ? 'text-warn' : colon === '' ? 'text-good' : 'text-accent';
    shown.push(line.slice(end, found.index));
    shown.push(
      <span key={found.index} className={tone}>
        {string ?? whole}
      </span>,
      colon,
    );
    end = found.index + whole.length;
  }
  return [...shown, line.slice(end)];
}
