import { useQuery } from '@tanstack/react-query';
import { api, dataOf } from '@/api/client';
import { textOf, useAddress } from '@/lib/address';
import { shortId, useUserNames } from '@/lib/names';
import { textOfConfig } from '@/pages/configs/shapes';
import { configs } from '@/texts/configs';
import { Button } from '@/ui/button';
import { LineDiff } from '@/ui/line-diff';
import { Badge, Sentence, Time } from '@/ui/small';
import { Loaded } from '@/ui/states';

const texts = configs.versions;
const mostShown = 50;

interface VersionsProps {
  readonly id: string;
  /** What the editor holds. */
  readonly text: string;
  readonly onTake?: ((text: string, version: number) => void) | undefined;
}

/** The versions of a config, newest first, each with what differs from the editor. */
export function Versions({ id, text, onTake }: VersionsProps) {
  const { search, change } = useAddress();
  const people = useUserNames();
  const query = useQuery({
    queryKey: ['config-versions', id],
    queryFn: ({ signal }) =>
      dataOf(
        api.GET('/configs/{slug}/versions', {
          params: { path: { slug: id }, query: { page_size: mostShown } },
          signal,
        }),
      ),
  });
  const chosen = Number(textOf(search['version']));
  return (
    <Loaded query={query}>
      {({ data }) => (
        <ul aria-label={texts.label} className="grid">
          {data.map((one, index) => {
            const stored = textOfConfig(JSON.parse(one.config));
            const isOpen = one.version === chosen;
            return (
              <li key={one.version_id} className="border-line border-b px-4 py-2 last:border-b-0">
                <div className="flex flex-wrap items-center gap-2">
                  <button
                    type="button"
                    aria-expanded={isOpen}
                    className="text-accent font-medium underline"
                    onClick={() => change({ version: isOpen ? undefined : one.version }, { replace: true })}
                  >
                    {texts.version(one.version)}
                  </button>
                  {index === 0 && <Badge tone="good">{texts.current}</Badge>}
                  <span className="text-soft grow text-right">
                    <Sentence
                      text={texts.by}
                      parts={[
                        <Time iso={one.last_updated_at} ago />,
                        <span className="inline-block max-w-40 truncate align-bottom" title={one.updated_by}>
                          {people.get(one.updated_by) ?? shortId(one.updated_by)}
                        </span>,
                      ]}
                    />
                  </span>
                </div>
                {isOpen && (
                  <div className="mt-2 grid gap-2">
                    <p className="text-soft text-xs">{texts.compare}</p>
                    <LineDiff label={texts.compare} before={stored} after={text} />
                    {onTake !== undefined && stored !== text && (
                      <div>
                        <Button onClick={() => onTake(stored, one.version)}>{texts.take}</Button>
                      </div>
                    )}
                  </div>
                )}
              </li>
            );
          })}
        </ul>
      )}
    </Loaded>
  );
}
