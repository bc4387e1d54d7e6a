import { lazy, Suspense, useEffect } from 'react';
import { useQuery } from '@tanstack/react-query';
import { FilePen } from 'lucide-react';
import { api, dataOf } from '@/api/client';
import { type Status, useStatus } from '@/api/operations';
import { useSession } from '@/api/session';
import { YamlText } from '@/editor/yaml-text';
import { useAddress } from '@/lib/address';
import { duration } from '@/lib/format';
import { CanaryCard } from '@/pages/pipelines/canary';
import { operations } from '@/texts/operations';
import { Button } from '@/ui/button';
import { Card, Page } from '@/ui/page';
import { Badge, Code, type Tone, Time } from '@/ui/small';
import { Empty, Loaded, Loading } from '@/ui/states';

const EditPage = lazy(() => import('@/pages/pipelines/edit'));

const texts = operations.pipelines;
const tones: Readonly<Record<string, Tone>> = { started: 'good', swapped: 'good', failed: 'bad' };

/** The pipelines that serve, and how the configuration came to be what it is. */
export default function Pipelines() {
  const status = useStatus();
  const { caller } = useSession();
  const { search, change } = useAddress();
  const isOwner = caller?.type === 'owner';
  const file = useQuery({
    queryKey: ['config-file'],
    queryFn: () => dataOf(api.GET('/admin/config-file')),
    enabled: isOwner,
    // A refresh does not replace a text that is being written.
    refetchOnWindowFocus: false,
  });
  const { data: loaded } = file;
  const isEditing = search['edit'] !== undefined;
  const lastReload = status.data?.reloads[0]?.at;
  useEffect(() => {
    if (isOwner && !isEditing && lastReload !== undefined) void file.refetch();
  }, [lastReload]);
  const close = (): void => change({ edit: undefined });
  if (isEditing && loaded?.writes === true && typeof loaded.text === 'string')
    return (
      <Suspense fallback={<Loading lines={12} />}>
        <EditPage loaded={{ ...loaded, text: loaded.text }} onClose={close} />
      </Suspense>
    );
  return (
    <Page
      title={texts.title}
      intro={texts.intro}
      actions={
        loaded?.writes === true &&
        typeof loaded.text === 'string' && (
          <Button
            onClick={() => {
              void file.refetch().then(() => change({ edit: 1 }));
            }}
          >
            <FilePen className="size-4" />
            {texts.edit.open}
          </Button>
        )
      }
    >
      {typeof loaded?.reason === 'string' && (
        <p role="alert" className="bg-warn-wash text-warn rounded p-2">
          {loaded.reason}
        </p>
      )}
      <Loaded query={status} lines={8}>
        {(found) => (
          <>
            {found.config_error !== null && (
              <p role="alert" className="bg-bad-wash text-bad rounded p-2">
                {texts.refused}
              </p>
            )}
            {loaded?.writes === true && <CanaryCard />}
            <h2 className="font-semibold">
              {texts.running} <span className="text-soft font-normal">· {texts.masked}</span>
            </h2>
            <div className="grid items-start gap-4 lg:grid-cols-2">
              {found.pipelines.map((pipeline) => (
                <Pipeline key={pipeline.name} pipeline={pipeline} />
              ))}
            </div>
            {typeof loaded?.text === 'string' && <FileCard file={{ ...loaded, text: loaded.text }} />}
            <Card title={texts.reloads}>
              <p className="text-soft px-4 pt-2 text-xs">{texts.reloadsIntro}</p>
              <Reloads reloads={found.reloads} />
            </Card>
          </>
        )}
      </Loaded>
    </Page>
  );
}

interface FileCardProps {
  readonly file: { readonly name: string; readonly text: string; readonly writes: boolean };
}

/** The text of the configuration file, to read; and which option lets it be written where nothing does. */
function FileCard({ file: { name, text, writes } }: FileCardProps) {
  return (
    <Card title={name} actions={<span className="text-soft text-xs">{texts.file.masks}</span>}>
      {!writes && (
        <p className="text-soft border-line flex flex-wrap items-center gap-2 border-b px-4 py-2">
          {texts.file.off} <Code text={texts.file.option} />
        </p>
      )}
      <div className="h-[28rem] min-h-0">
        <YamlText label={texts.file.text} value={text} />
      </div>
    </Card>
  );
}

function Pipeline({ pipeline }: { readonly pipeline: Status['pipelines'][number] }) {
  const { name, match, plugins } = pipeline;
  const where = match.routes === 'contributed' ? texts.contributed : (match.path ?? texts.everyPath);
  return (
    <Card
      title={name}
      actions={
        <span className="text-soft min-w-0 truncate font-mono text-xs">
          {[where, ...(match.methods ?? [])].join(' ')}
        </span>
      }
    >
      <ol aria-label={texts.pluginsOf(name)}>
        {plugins.map((plugin, index) => {
          const options = Object.entries(plugin.options);
          return (
            <li key={index} className="border-line flex gap-3 border-b px-4 py-2 last:border-b-0">
              <span className="text-soft w-5 shrink-0 text-right tabular-nums">{index + 1}</span>
              <div className="min-w-0 grow">
                <p className="flex flex-wrap items-center gap-2">
                  <span className="font-medium break-all">{plugin.name}</span>
                  {plugin.isolated === true && <Badge>{texts.isolated}</Badge>}
                  <span title={plugin.place} className="text-soft ml-auto font-mono text-xs">
                    {fileName(plugin.place)}
                  </span>
                </p>
                {options.length > 0 && (
                  <dl className="text-soft grid grid-cols-[auto_1fr] gap-x-3 font-mono text-xs">
                    {options.map(([option, value]) => (
                      <div key={option} className="contents">
                        <dt>{option}</dt>
                        <dd className="text-ink min-w-0 break-words">
                          {typeof value === 'string' ? value : JSON.stringify(value)}
                        </dd>
                      </div>
                    ))}
                  </dl>
                )}
              </div>
            </li>
          );
        })}
      </ol>
    </Card>
  );
}

/** A place without the folders of its file. */
function fileName(place: string): string {
  return place.slice(place.lastIndexOf('/') + 1);
}

function Reloads({ reloads }: Pick<Status, 'reloads'>) {
  if (reloads.length === 0) return <Empty title={texts.none} />;
  return (
    <ol aria-label={texts.reloads}>
      {reloads.map(({ at, outcome, reason, took_ms: took, generation, problems }, index) => (
        <li key={index} className="border-line border-b px-4 py-2 last:border-b-0">
          <div className="flex flex-wrap items-center gap-3">
            <Time iso={at} />
            <Badge tone={tones[outcome] ?? 'neutral'}>{texts.outcomes[outcome] ?? outcome}</Badge>
            <span>{reason}</span>
            <span className="text-soft ml-auto text-xs tabular-nums">
              <code className="font-mono">{generation}</code> · {texts.took(duration(took))}
            </span>
          </div>
          {problems.length > 0 && (
            <ul aria-label={texts.faults} className="mt-1 grid gap-1 pl-4">
              {problems.map(({ file, line, column, message }, at1) => (
                <li key={at1} className="break-words">
                  <code className="text-bad font-mono text-xs">{texts.line(file, line, column)}</code>{' '}
                  {message}
                </li>
              ))}
            </ul>
          )}
        </li>
      ))}
    </ol>
  );
}
