import { Fragment, useState, type ReactNode } from 'react';
import { Check, Copy } from 'lucide-react';
import { classes } from '@/lib/classes';
import { moment, relative } from '@/lib/format';
import { usePreferences } from '@/lib/preferences';
import { common } from '@/texts/common';
import { IconButton } from '@/ui/button';

export type Tone = 'neutral' | 'good' | 'warn' | 'bad' | 'accent';

const tones: Record<Tone, string> = {
  neutral: 'bg-raised text-soft',
  good: 'bg-good-wash text-good',
  warn: 'bg-warn-wash text-warn',
  bad: 'bg-bad-wash text-bad',
  accent: 'bg-accent-wash text-accent',
};

/** A word with a tone; the word says it as well, so that colour is not needed. */
export function Badge({
  tone = 'neutral',
  children,
}: {
  readonly tone?: Tone;
  readonly children: ReactNode;
}) {
  return (
    <span
      className={classes(
        'inline-block max-w-full truncate rounded px-1.5 py-0.5 align-middle text-xs font-medium whitespace-nowrap',
        tones[tone],
      )}
    >
      {children}
    </span>
  );
}

/** A time in the chosen zone; its tooltip has the other form. */
export function Time({
  iso,
  ago = false,
}: {
  readonly iso: string | null | undefined;
  readonly ago?: boolean;
}) {
  const { zone } = usePreferences();
  if (iso === null || iso === undefined || iso === '') return <span className="text-soft">–</span>;
  const exact = moment(iso, zone);
  return (
    <time dateTime={iso} title={ago ? exact : relative(iso)} className="whitespace-nowrap tabular-nums">
      {ago ? relative(iso) : exact}
    </time>
  );
}

/** Copies a text. */
export function CopyButton({
  text,
  label = common.action.copy,
}: {
  readonly text: string;
  readonly label?: string;
}) {
  const [copied, setCopied] = useState(false);
  const copy = async (): Promise<void> => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return (
    <IconButton label={copied ? common.action.copied : label} onClick={() => void copy()}>
      {copied ? <Check className="text-good size-4" /> : <Copy className="size-4" />}
    </IconButton>
  );
}

/** An id or another short text in the font of code, with a button that copies it. */
export function Code({ text }: { readonly text: string }) {
  return (
    <span className="inline-flex max-w-full items-center gap-1">
      <code className="bg-raised min-w-0 truncate rounded px-1.5 py-0.5 font-mono text-xs">{text}</code>
      <CopyButton text={text} />
    </span>
  );
}

/** Texts of several lines as they are, scrolled within. */
export function CodeBlock({ text, className }: { readonly text: string; readonly className?: string }) {
  return (
    <div className="relative min-w-0">
      <pre
        tabIndex={0}
        className={classes(
          'bg-raised max-h-96 overflow-auto rounded-md p-3 font-mono text-xs wrap-anywhere whitespace-pre-wrap',
          className,
        )}
      >
        {text}
      </pre>
      <div className="absolute top-1 right-1">
        <CopyButton text={text} />
      </div>
    </div>
  );
}

interface SentenceProps {
  /** Gets a mark for each of the parts, which may stand in any order. */
  readonly text: (...marks: string[]) => string;
  readonly parts: readonly ReactNode[];
}

/** A sentence of the texts with elements in it, say a moment or a link, at the places that the language gives them. */
export function Sentence({ text, parts }: SentenceProps) {
  // Private characters, which no text has.
  const marks = parts.map((_, index) => String.fromCharCode(0xe000 + index));
  return text(...marks)
    .split(/([\uE000-\uE00F])/)
    .map((piece, index) => (
      <Fragment key={index}>{marks.includes(piece) ? parts[marks.indexOf(piece)] : piece}</Fragment>
    ));
}
