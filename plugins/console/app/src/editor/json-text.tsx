import { lazy, Suspense, useImperativeHandle, useRef, useState } from 'react';
import type { EditorHandle, JsonEditorProps } from '@/editor/json-editor';
import { Reader } from '@/editor/reader';

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
      coloured={coloured}
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

/** Names, texts, and other values of a line of JSON. */
const pieces = /("(?:[^"\\]|\\.)*"?)(\s*:)?|(-?\d[\d.eE+-]*|true|false|null)/g;

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
