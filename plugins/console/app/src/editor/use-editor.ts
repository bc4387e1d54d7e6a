import { useEffect, useRef, type RefObject } from 'react';
import { EditorState, type Extension } from '@codemirror/state';
import {
  drawSelection,
  EditorView,
  highlightSpecialChars,
  lineNumbers,
  type Tooltip,
} from '@codemirror/view';
import { editor as texts } from '@/texts/editor';

/** What every editor is given. */
export interface EditorProps {
  /** Says what the text is, to readers of the screen. */
  readonly label: string;
  readonly value: string;
  readonly onChange: (text: string) => void;
  /** Asked when it is made: whether the caret is in it then. */
  readonly takesFocus?: () => boolean;
}

interface Editor {
  /** For the element that holds the editor. */
  readonly box: RefObject<HTMLDivElement | null>;
  /** Null before it is made, and after its end. */
  readonly view: RefObject<EditorView | null>;
}

/** An editor of the text `value`, with what this kind of editor adds (`own`, asked once). */
export function useEditor({ label, value, onChange, takesFocus }: EditorProps, own: () => Extension): Editor {
  const box = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(null);
  const changed = useRef(onChange);
  changed.current = onChange;

  useEffect(() => {
    if (box.current === null) return;
    const nonce = document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce ?? '';
    const made = new EditorView({
      parent: box.current,
      state: EditorState.create({
        doc: value,
        extensions: [
          EditorView.cspNonce.of(nonce),
          EditorState.phrases.of(texts.phrases),
          highlightSpecialChars(),
          drawSelection(),
          lineNumbers(),
          own(),
          theme,
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ 'aria-label': label, tabindex: '0' }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) changed.current(update.state.doc.toString());
          }),
        ],
      }),
    });
    view.current = made;
    if (takesFocus?.() === true) made.focus();
    return () => {
      view.current = null;
      made.destroy();
    };
  }, []);

  useEffect(() => {
    const current = view.current;
    if (current === null || current.state.doc.toString() === value) return;
    current.dispatch({ changes: { from: 0, to: current.state.doc.length, insert: value } });
  }, [value]);

  return { box, view };
}

/** What a word of the text means, shown beside it. */
export function descriptionTooltip(pos: number, end: number, text: string): Tooltip {
  return {
    pos,
    end,
    create() {
      const dom = document.createElement('div');
      dom.className = 'weir-hover';
      dom.textContent = text;
      return { dom };
    },
  };
}

const tooltip = {
  backgroundColor: 'var(--c-panel)',
  color: 'var(--c-ink)',
  border: '1px solid var(--c-line)',
  borderRadius: '6px',
  maxWidth: '32rem',
};
/** The looks of the editors, from the looks of the page. */
const theme = EditorView.theme({
  '&': { height: '100%', backgroundColor: 'var(--c-panel)', color: 'var(--c-ink)', fontSize: '13px' },
  '&.cm-focused': { outline: '2px solid var(--c-accent)', outlineOffset: '-2px' },
  '.cm-scroller': {
    fontFamily: "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace",
    lineHeight: '1.6',
  },
  '.cm-content': { caretColor: 'var(--c-ink)' },
  '.cm-cursor': { borderLeftColor: 'var(--c-ink)' },
  '.cm-gutters': { backgroundColor: 'var(--c-panel)', color: 'var(--c-soft)', border: 'none' },
  '.cm-gutter-lint': { width: '1.4em' },
  '.cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground': {
    backgroundColor: 'var(--c-accent-wash)',
  },
  '&.cm-focused .cm-matchingBracket': {
    backgroundColor: 'var(--c-raised)',
    outline: '1px solid var(--c-line)',
  },
  '.cm-tooltip': tooltip,
  '.cm-tooltip-autocomplete ul li[aria-selected]': {
    backgroundColor: 'var(--c-accent-wash)',
    color: 'var(--c-accent)',
  },
  '.cm-completionInfo': { ...tooltip, padding: '6px 10px' },
  '.weir-hover': { padding: '6px 10px', maxWidth: '32rem' },
  '.cm-diagnostic': { padding: '6px 10px' },
  '.weir-name, .weir-name *': { color: 'var(--c-accent)' },
  '.weir-comment': { color: 'var(--c-soft)' },
  '.weir-text, .weir-text *': { color: 'var(--c-good)' },
  '.weir-value, .weir-value *': { color: 'var(--c-warn)' },
});
