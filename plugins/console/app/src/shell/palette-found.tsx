import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { Command } from 'cmdk';
import { ScrollText } from 'lucide-react';
import { useSession } from '@/api/session';
import { foundBy } from '@/lib/found';
import { namedKinds } from '@/resource/named-kinds';
import { recordPlace } from '@/resource/record-place';
import { common } from '@/texts/common';

const { nav } = common;
const texts = common.palette;

/** Records that are shown; more words show others. */
const mostShown = 20;

interface PaletteFoundProps {
  /** What is typed. */
  readonly text: string;
  readonly item: string;
  readonly run: (action: () => unknown) => () => void;
}

/** Records of this name, the request or trace of this id, and the log searched for what is typed. */
export function PaletteFound({ text, item, run }: PaletteFoundProps) {
  const navigate = useNavigate();
  const { may } = useSession();
  const own = namedKinds.filter(({ scopes }) => may(...scopes));
  const records = useQuery({
    queryKey: ['palette', own.map(({ kind }) => kind)],
    queryFn: async () => {
      // A kind that cannot be read leaves the others.
      const all = await Promise.allSettled(
        own.map(async ({ kind, text: kindText, read }) =>
          (await read()).map((one) => ({ ...one, kind, kindText })),
        ),
      );
      return all.flatMap((one) => (one.status === 'fulfilled' ? one.value : []));
    },
    enabled: text !== '',
    // What somebody made a moment ago is found; it is read once each time the palette opens.
    staleTime: 0,
  });
  const go = (kind: string, id: string) =>
    run(() => {
      const place = recordPlace(kind, id);
      if (place !== undefined) void navigate({ to: place.to, search: place.search as object });
    });
  if (text === '') return null;
  const shown = foundBy(text, records.data ?? []).slice(0, mostShown);
  const seesLog = may('logs.list', 'logs.view');
  const isRequest = seesLog && /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text);
  const isTrace = seesLog && /^[0-9a-f]{32}$/i.test(text);
  return (
    <>
      {shown.length > 0 && (
        <Command.Group heading={texts.records} className="text-soft text-xs">
          {shown.map(({ id, text: name, kind, kindText }) => (
            <Command.Item
              key={`${kind} ${id}`}
              value={`${kind} ${id}`}
              onSelect={go(kind, id)}
              className={`${item} text-ink text-sm`}
            >
              <span className="min-w-0 truncate">{name}</span>
              <span className="text-soft ml-auto shrink-0 text-xs">{kindText}</span>
            </Command.Item>
          ))}
        </Command.Group>
      )}
      {/* Made anew when the records are there, so that the first of them is chosen and not the log. */}
      {seesLog && (
        <Command.Group key={String(records.isPending)} heading={nav.logs} className="text-soft text-xs">
          {isRequest && (
            <Command.Item
              value={`request:${text}`}
              onSelect={run(() => navigate({ to: '/logs/$id', params: { id: text } }))}
              className={`${item} text-ink text-sm`}
            >
              {texts.request(text)}
            </Command.Item>
          )}
          {isTrace && (
            <Command.Item
              value={`trace:${text}`}
              onSelect={run(() => navigate({ to: '/traces/$id', params: { id: text } }))}
              className={`${item} text-ink text-sm`}
            >
              {texts.trace(text)}
            </Command.Item>
          )}
          <Command.Item
            value="search-the-log"
            onSelect={run(() => navigate({ to: '/logs', search: { search: text } as object }))}
            className={`${item} text-ink text-sm`}
          >
            <ScrollText className="size-4 shrink-0" aria-hidden />
            <span className="min-w-0 truncate">{texts.searchLog(text)}</span>
          </Command.Item>
        </Command.Group>
      )}
    </>
  );
}
