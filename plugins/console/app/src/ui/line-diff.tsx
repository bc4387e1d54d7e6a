import { configs } from '@/texts/configs';
import { classes } from '@/lib/classes';

const texts = configs.versions;
/** Lines of each text that are compared one by one; longer texts are shown one after the other. */
const mostLines = 2000;
/** Unchanged lines around a change. */
const around = 3;

interface Line {
  readonly kind: 'same' | 'removed' | 'added';
  readonly text: string;
}

/** The lines of two texts, with what was removed and added. */
function linesOf(before: string, after: string): readonly Line[] {
  const a = before.split('\n');
  const b = after.split('\n');
  const line =
    (kind: Line['kind']) =>
    (text: string): Line => ({ kind, text });
  if (a.length > mostLines || b.length > mostLines)
    return [...a.map(line('removed')), ...b.map(line('added'))];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end])
    end += 1;
  const left = a.slice(start, a.length - end);
  const right = b.slice(start, b.length - end);
  return [
    ...a.slice(0, start).map(line('same')),
    ...middle(left, right),
    ...a.slice(a.length - end).map(line('same')),
  ];
}

/** By the longest common subsequence. */
function middle(a: readonly string[], b: readonly string[]): readonly Line[] {
  const width = b.length + 1;
  const table = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1)
    for (let j = b.length - 1; j >= 0; j -= 1)
      table[i * width + j] =
        a[i] === b[j]
          ? (table[(i + 1) * width + j + 1] ?? 0) + 1
          : Math.max(table[(i + 1) * width + j] ?? 0, table[i * width + j + 1] ?? 0);
  const found: Line[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    const text = a[i];
    if (i < a.length && j < b.length && text === b[j]) {
      found.push({ kind: 'same', text: text ?? '' });
      i += 1;
      j += 1;
    } else if (
      j >= b.length ||
      (i < a.length && (table[(i + 1) * width + j] ?? 0) >= (table[i * width + j + 1] ?? 0))
    ) {
      found.push({ kind: 'removed', text: text ?? '' });
      i += 1;
    } else {
      found.push({ kind: 'added', text: b[j] ?? '' });
      j += 1;
    }
  }
  return found;
}

const signs = { same: ' ', removed: '−', added: '+' } as const;
const looks = { same: '', removed: 'bg-bad-wash text-bad', added: 'bg-good-wash text-good' } as const;
const words = { same: texts.same1, removed: texts.removed, added: texts.added } as const;

interface LineDiffProps {
  readonly label: string;
  readonly before: string;
  readonly after: string;
}

/** Two texts of lines, with their differences; long runs of unchanged lines are left out. */
export function LineDiff({ label, before, after }: LineDiffProps) {
  if (before === after) return <p className="text-soft p-3">{texts.same}</p>;
  const lines = linesOf(before, after);
  const near = (index: number): boolean =>
    lines.slice(Math.max(0, index - around), index + around + 1).some(({ kind }) => kind !== 'same');
  const parts: (Line | number)[] = [];
  lines.forEach((line, index) => {
    const last = parts.at(-1);
    if (near(index)) parts.push(line);
    else if (typeof last === 'number') parts[parts.length - 1] = last + 1;
    else parts.push(1);
  });
  return (
    <div
      role="group"
      aria-label={label}
      tabIndex={0}
      className="border-line max-h-96 overflow-auto rounded-md border font-mono text-xs"
    >
      <ol>
        {parts.map((part, index) =>
          typeof part === 'number' ? (
            <li key={index} className="bg-raised text-soft px-2 py-0.5 font-sans">
              {texts.hidden(part)}
            </li>
          ) : (
            <li key={index} className={classes('flex px-2 whitespace-pre-wrap', looks[part.kind])}>
              <span aria-hidden className="w-4 shrink-0 select-none">
                {signs[part.kind]}
              </span>
              <span className="sr-only">{words[part.kind]}: </span>
              <span className="min-w-0 break-words">{part.text}</span>
            </li>
          ),
        )}
      </ol>
    </div>
  );
}
