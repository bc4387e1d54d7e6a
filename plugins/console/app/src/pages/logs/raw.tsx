import type { ReactNode } from 'react';
import type { LogDetail } from '@/pages/logs/timings';
import { log } from '@/texts/log';
import { CodeBlock } from '@/ui/small';

const texts = log.raw;

/** Bodies and headers as they were kept. */
export function Raw({ entry }: { readonly entry: LogDetail }) {
  const { request, response, transformedRequest: sent, originalResponse: original } = entry;
  return (
    <div className="grid gap-3 p-4">
      <Side title={texts.request(request.method, request.url)} side={request} open />
      <Side title={texts.answer(response.status)} side={{ ...response, headers: null }} open />
      {sent !== null && <Side title={texts.sent(sent.method, sent.url)} side={sent} />}
      {original !== null && <Side title={texts.original(original.status)} side={original} />}
      <Folded title={texts.whole}>
        <CodeBlock text={JSON.stringify({ ...entry, request: undefined, response: undefined }, null, 2)} />
      </Folded>
    </div>
  );
}

interface SideProps {
  readonly title: string;
  readonly side: {
    readonly body?: unknown;
    readonly truncated: boolean;
    readonly headers: Readonly<Record<string, string>> | null;
  };
  readonly open?: boolean;
}

function Side({ title, side: { body, truncated, headers }, open = false }: SideProps) {
  return (
    <Folded title={title} open={open}>
      {headers !== null && (
        <>
          <p className="text-soft text-xs font-medium">{texts.headers}</p>
          <CodeBlock
            text={Object.entries(headers)
              .map(([name, value]) => `${name}: ${value}`)
              .join('\n')}
          />
        </>
      )}
      <p className="text-soft text-xs font-medium">
        {texts.body}
        {truncated && <span className="text-warn"> ({texts.cut})</span>}
      </p>
      {body === null || body === undefined ? (
        <p className="text-soft">{texts.none}</p>
      ) : (
        <CodeBlock text={typeof body === 'string' ? body : JSON.stringify(body, null, 2)} />
      )}
    </Folded>
  );
}

interface FoldedProps {
  readonly title: string;
  readonly open?: boolean;
  readonly children: ReactNode;
}

function Folded({ title, open = false, children }: FoldedProps) {
  return (
    <details open={open} className="border-line rounded-md border">
      <summary className="cursor-pointer px-3 py-2 font-medium break-all">{title}</summary>
      <div className="grid gap-2 px-3 pb-3">{children}</div>
    </details>
  );
}
