import { useState } from 'react';
import { ImageOff } from 'lucide-react';
import { classes } from '@/lib/classes';
import { count } from '@/lib/format';
import type { Part, Turn } from '@/pages/logs/blocks';
import { answerTurns, requestTurns } from '@/pages/logs/conversation';
import type { LogDetail } from '@/pages/logs/timings';
import { log } from '@/texts/log';
import { Badge, CodeBlock, CopyButton, type Tone } from '@/ui/small';
import { Empty } from '@/ui/states';

const texts = log.messages;
const tones: Readonly<Record<string, Tone>> = { user: 'accent', assistant: 'good', tool: 'warn' };

/** The messages, as a conversation. */
export function Messages({ entry }: { readonly entry: LogDetail }) {
  const { request, response, log_format: format } = entry;
  const asked = requestTurns(request.body, format);
  const answered = answerTurns(response.body, format);
  const { error_message: fault } = entry.metrics;
  if (asked.length === 0 && answered.length === 0 && fault === '')
    return format === 'none' ? (
      <Empty title={texts.none} text={texts.noneHelp} />
    ) : (
      <Empty title={texts.other} />
    );
  const tools = toolsOf(request.body);
  return (
    <div className="grid gap-3 p-4">
      {tools > 0 && <p className="text-soft text-xs">{texts.tools(count(tools))}</p>}
      {asked.map((turn, index) => (
        <Message key={index} turn={turn} />
      ))}
      {answered.map((turn, index) => (
        <Message key={`answer:${index}`} turn={turn} isAnswer />
      ))}
      {fault !== '' && (
        <div className="bg-bad-wash text-bad rounded-md p-3">
          <p className="font-medium">{texts.error}</p>
          <p className="break-words whitespace-pre-wrap">{fault}</p>
        </div>
      )}
    </div>
  );
}

function toolsOf(body: unknown): number {
  if (typeof body !== 'object' || body === null || !('tools' in body)) return 0;
  return Array.isArray(body.tools) ? body.tools.length : 0;
}

function Message({
  turn: { role, parts },
  isAnswer = false,
}: {
  readonly turn: Turn;
  readonly isAnswer?: boolean;
}) {
  const words = parts.map((part) => ('text' in part ? part.text : '')).join('\n');
  return (
    <article className={classes('border-line rounded-md border', isAnswer && 'border-accent/50')}>
      <header className="border-line/60 flex items-center gap-2 border-b px-3 py-1">
        <Badge tone={tones[role] ?? 'neutral'}>{role}</Badge>
        {isAnswer && <span className="text-soft text-xs">{texts.answer}</span>}
        <span className="grow" />
        <CopyButton text={words} />
      </header>
      <div className="grid gap-2 p-3">
        {parts.map((part, index) => (
          <MessagePart key={index} part={part} />
        ))}
      </div>
    </article>
  );
}

function MessagePart({ part }: { readonly part: Part }) {
  if (part.kind === 'text') return <LongText text={part.text} />;
  if (part.kind === 'image') return <Picture url={part.url} />;
  if (part.kind === 'other') return <CodeBlock text={part.text} />;
  if (part.kind === 'thought' || part.kind === 'refusal')
    return (
      <div className="border-line text-soft border-l-2 pl-3">
        <p className="text-xs font-medium">{texts[part.kind]}</p>
        <LongText text={part.text} />
      </div>
    );
  if (!('name' in part)) return null;
  const title = part.kind === 'call' ? texts.call(part.name) : texts.result(part.name);
  return (
    <div>
      <p className="text-soft mb-1 text-xs font-medium break-all">{title}</p>
      <CodeBlock text={part.text} />
    </div>
  );
}

/** More characters than these are shown when they are asked for. */
const shownAtFirst = 6000;

function LongText({ text }: { readonly text: string }) {
  const [all, setAll] = useState(false);
  const cut = !all && text.length > shownAtFirst;
  return (
    <div>
      <p className="break-words whitespace-pre-wrap">{cut ? `${text.slice(0, shownAtFirst)}…` : text}</p>
      {cut && (
        <button type="button" className="text-accent mt-1 underline" onClick={() => setAll(true)}>
          {texts.more}
        </button>
      )}
    </div>
  );
}

/** Images within the log are shown; those elsewhere are not fetched, for their host would learn of it. */
export function Picture({ url, className }: { readonly url: string; readonly className?: string }) {
  if (/^data:image\/(png|jpeg|gif|webp);base64,[\w+/=]+$/.test(url))
    return (
      <img
        src={url}
        alt={texts.image}
        className={classes(
          'border-line max-h-80 max-w-full min-w-8 rounded border object-contain',
          className,
        )}
      />
    );
  return (
    <p className="text-soft flex min-w-0 items-center gap-2">
      <ImageOff className="size-4 shrink-0" aria-hidden />
      {texts.imageLink}
      {/^https?:/.test(url) ? (
        <a href={url} target="_blank" rel="noreferrer noopener" className="text-accent truncate underline">
          {url}
        </a>
      ) : (
        <span className="truncate">{url.slice(0, 200)}</span>
      )}
    </p>
  );
}
