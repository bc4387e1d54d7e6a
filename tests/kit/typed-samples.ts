/** Blocks of documents as a reader types them into a shell, and what has to come of it. */
import assert from 'node:assert/strict';
import { exceptionOf, missingFrom, shown, type Sample } from './document-samples.ts';

/** A reader's shell: a command that fails ends the block, and a gateway that it starts is waited for. */
export const shell = `set -eo pipefail
curl() {
  # A stream has no end.
  if [ "$1" = -sN ]; then command curl --max-time 4 "$@" || [ $? = 28 ]; return; fi
  command curl -sS --fail-with-body --max-time 20 "$@"
}
weir() {
  if [ "$1" != start ]; then "$NODE" "$WEIR_SCRIPT" "$@"; return; fi
  if [ -n "$PLAYED" ]; then
    printf 'version: 1\\ninclude: [gateway.config.yaml]\\nsecurity: { trusted_hosts: ["%s"] }\\n' "$PLAYED" > started.yaml
    printf 'storage: { resources: { url: "none:" }, analytics: { url: "none:" } }\\n' >> started.yaml
    set -- "$@" --config started.yaml
  fi
  "$NODE" "$WEIR_SCRIPT" "$@" --port "$FREE_PORT" > started.log 2>&1 &
  while kill -0 $! 2> /dev/null; do grep -q 'listens on' started.log && return; sleep 0.1; done
  cat started.log; return 1
}
npx() { case "$1" in weir|weir-gateway) shift; weir "$@";; *) command npx "$@";; esac; }
trap 'kill $(jobs -p) 2> /dev/null || true' EXIT
`;

/** A block of commands; a transcript holds what they print as well. */
export const isCommand = ({ language, text }: Sample): boolean =>
  language === 'sh' || (language === 'text' && text.startsWith('$ '));

/** What follows a block below the same heading and shows what it prints. */
export function outputOf(sample: Sample, samples: readonly Sample[]): Sample | undefined {
  const next = samples[samples.indexOf(sample) + 1];
  const isOutput =
    next?.document === sample.document &&
    next.section === sample.section &&
    sample.language === 'sh' &&
    ['json', 'jsonc', 'text'].includes(next.language) &&
    !isCommand(next);
  return isOutput && exceptionOf(next) === undefined ? next : undefined;
}

/** The commands of a block, and what it shows of their output itself: a transcript has both. */
export function partsOf({ language, text }: Sample): { script: string; output?: string } {
  if (language === 'sh') return { script: text };
  const lines = text.split('\n');
  const last = lines.findIndex((line) => !line.endsWith('\\'));
  const script = lines
    .slice(0, last + 1)
    .join('\n')
    .replace(/^\$ /, '');
  return { script, output: lines.slice(last + 1).join('\n') };
}

/** JSON values as they stand one after the other in what was printed or is shown; comments are left out. */
function jsonIn(text: string): readonly unknown[] {
  const found: unknown[] = [];
  let open = '';
  for (const line of text.split('\n')) {
    if (open === '' && !/^\s*[[{]/.test(line)) continue;
    open += line;
    // Several answers stand in one line where none ends with a new line.
    for (const part of open.replaceAll('}{', '}\n{').split('\n')) {
      try {
        found.push(JSON.parse(part));
        open = '';
      } catch {
        open = part;
      }
    }
  }
  return found;
}

/** The answer that is shown says what is wrong with the request. */
export const isRefusal = (output: Sample | undefined): boolean =>
  output !== undefined && /^\{\s*"(errors?"|success": false)/.test(output.text);

function assertShows(printed: string, text: string, place: string): void {
  const said = printed.replaceAll('\r', '');
  // Ids and times of the day when the page was written.
  const wanted = text.replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}|\b\d{10,}\b/g, '…');
  assert.ok(shown(wanted).test(said), `${place} shows\n${text}\nand what is printed is\n${said}`);
}

/** Throws when what is printed is not what the document shows: in the block itself, or in `next`, the one behind it. */
export function judge(sample: Sample, printed: string, next: Sample | undefined): void {
  const { output } = partsOf(sample);
  if (output !== undefined) assertShows(printed, output, sample.place);
  if (next === undefined) return;
  if (next.language === 'text') assertShows(printed, next.text, next.place);
  else {
    const answers = jsonIn(printed);
    const missing = jsonIn(next.text).flatMap((value, at) => missingFrom(answers[at], value));
    assert.deepEqual(missing, [], `${next.place}: the answer is ${printed}`);
  }
}
