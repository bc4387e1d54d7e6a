import { type HTMLAttributes, type RefAttributes, type RefObject, useEffect, useRef } from 'react';
import { Compartment, EditorState, type Extension } from '@codemirror/state';
import {
  Decoration,
  type DecorationSet,
  drawSelection,
  EditorView,
  highlightSpecialChars,
  type KeyBinding,
  lineNumbers,
  type Tooltip,
  ViewPlugin,
  type ViewUpdate,
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

/** What a kind of editor is. */
interface Kind {
  /** What it adds to every editor; asked once, when it is made. */
  readonly own: () => Extension;
  /** In the place of the help before that is there. */
  readonly before?: Extension;
  /** Loads what helps to write: completion, hover, keys. Readers need none of it. */
  readonly loadHelp: () => Promise<Extension>;
}

interface Editor {
  /** For the element that holds the editor. */
  readonly frame: HTMLAttributes<HTMLDivElement> & RefAttributes<HTMLDivElement>;
  /** Null before it is made, and after its end. */
  readonly view: RefObject<EditorView | null>;
  /** Brings the help, which comes by itself with the first focus or the pointer. */
  readonly help: () => void;
  /** Opens the completion of what was typed before its help, or the schema, was there. */
  readonly offer: () => void;
}

/** An editor of the text `value`. It grows with its box. */
export function useEditor({ label, value, onChange, takesFocus }: EditorProps, kind: Kind): Editor {
  const box = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(null);
  const changed = useRef(onChange);
  changed.current = onChange;
  const helped = useRef(new Compartment());
  const hasHelp = useRef(false);
  /** The last that was done is that something was typed: the caret waits behind it. */
  const isTyping = useRef(false);

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
          helped.current.of(kind.before ?? []),
          kind.own(),
          theme,
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ 'aria-label': label, tabindex: '0' }),
          EditorView.updateListener.of(({ docChanged, selectionSet, transactions, state }) => {
            if (docChanged || selectionSet)
              isTyping.current = transactions.some((one) => one.isUserEvent('input.type'));
            if (docChanged) changed.current(state.doc.toString());
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

  const offer = (): void => {
    if (!hasHelp.current || !isTyping.current) return;
    void import('@codemirror/autocomplete').then(({ completionStatus, startCompletion }) => {
      const current = view.current;
      if (current?.hasFocus === true && isTyping.current && completionStatus(current.state) === null)
        startCompletion(current);
    });
  };
  const help = (): void => {
    if (hasHelp.current) return;
    hasHelp.current = true;
    kind.loadHelp().then(
      (extension) => {
        view.current?.dispatch({ effects: helped.current.reconfigure(extension) });
        offer();
      },
      // The next focus tries again; meanwhile the text can be read and written.
      () => void (hasHelp.current = false),
    );
  };
  const frame = {
    ref: box,
    role: 'group',
    'aria-label': label,
    className: 'h-full min-h-0 min-w-0 overflow-hidden',
    onFocus: help,
    onPointerMove: help,
  };
  return { frame, view, help, offer };
}

/** Looks of parts of the text, by the kinds that `weir-…` of the theme names. */
export const marks = {
  name: Decoration.mark({ class: 'weir-name' }),
  text: Decoration.mark({ class: 'weir-text' }),
  value: Decoration.mark({ class: 'weir-value' }),
  comment: Decoration.mark({ class: 'weir-comment' }),
} as const;

/** Colours what is seen; `isOld` says when more than the text and the place in it has changed. */
export function colours(
  coloured: (view: EditorView) => DecorationSet,
  isOld: (update: ViewUpdate) => boolean = () => false,
): Extension {
  return ViewPlugin.define(
    (view) => {
      const plugin = {
        decorations: coloured(view),
        update(update: ViewUpdate): void {
          if (update.docChanged || update.viewportChanged || isOld(update))
            plugin.decorations = coloured(update.view);
        },
      };
      return plugin;
    },
    { decorations: (plugin) => plugin.decorations },
  );
}

/** Ctrl and S, or ⌘ and S. */
export function saveKey(save: () => void): KeyBinding {
  return {
    key: 'Mod-s',
    preventDefault: true,
    run: () => {
      save();
      return true;
    },
  };
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
