import { lazy, useImperativeHandle, useRef, useState } from 'react';
import type { EditorHandle, JsonEditorProps } from '@/editor/json-editor';
import { Reader } from '@/editor/reader';

const JsonEditor = lazy(() => import('@/editor/json-editor'));

/** A text of JSON, with its editor once that is wanted. */
export function JsonText({ handle, ...props }: JsonEditorProps) {
  const [isWanted, setWanted] = useState(false);
  const editor = useRef<EditorHandle>(null);
  /** JSON pointer that is shown once the editor is there. */
  const pending = useRef<string>(undefined);

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

  return (
    <Reader
      {...{ label: props.label, text: props.value, isWanted, partsOf }}
      editor={(takesFocus) => <JsonEditor {...props} handle={whenMade} takesFocus={takesFocus} />}
    />
  );
}

/** Names, texts, and other values of a line of JSON. */
const pieces = /("(?:[^"\\]|\\.)*"?)(\s*:)?|-?\d[\d.eE+-]*|true|false|null/g;

function partsOf(line: string) {
  return [...line.matchAll(pieces)].map(({ index, 0: whole, 1: string, 2: colon }) => ({
    kind:
      string === undefined ? ('value' as const) : colon === undefined ? ('text' as const) : ('name' as const),
    from: index,
    to: index + (string ?? whole).length,
  }));
}
