import { lazy, Suspense, useEffect, useRef, useState } from 'react';
import { keepPreviousData, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Save } from 'lucide-react';
import { api, ApiError, dataOf } from '@/api/client';
import type { operations as routes } from '@/api/schema.gen';
import type { YamlEditorHandle } from '@/editor/yaml-editor';
import { useLater } from '@/lib/later';
import { common } from '@/texts/common';
import { configs } from '@/texts/configs';
import { operations } from '@/texts/operations';
import { CanaryForm } from '@/pages/pipelines/canary';
import { Button } from '@/ui/button';
import { Dialog, DialogButtons } from '@/ui/dialog';
import { LineDiff } from '@/ui/line-diff';
import { Page } from '@/ui/page';
import { Badge } from '@/ui/small';
import { Loading } from '@/ui/states';
import { Unsaved } from '@/ui/unsaved';

const YamlEditor = lazy(() => import('@/editor/yaml-editor'));

/** The configuration file as its owner may edit it. */
type ConfigFile = routes['config_file.get']['responses'][200]['content']['application/json'];
type Written = routes['config_file.update']['responses'][200]['content']['application/json'];
type Fault = Written['faults'][number];

const texts = operations.pipelines.edit;
const pauseMs = 500;

function readConfigFile(): Promise<ConfigFile> {
  return dataOf(api.GET('/admin/config-file'));
}

interface EditPageProps {
  readonly loaded: ConfigFile & { readonly text: string };
  readonly onClose: () => void;
}

/** The text of the configuration file, with the gateway's faults as it is written, and what a reload of it did. */
export default function EditPage({ loaded, onClose }: EditPageProps) {
  const queries = useQueryClient();
  const [base, setBase] = useState(loaded);
  const [text, setText] = useState(loaded.text);
  const [result, setResult] = useState<Written>();
  const [fault, setFault] = useState<string>();
  const [theirs, setTheirs] = useState<ConfigFile>();
  const [reviewing, setReviewing] = useState(false);
  const editor = useRef<YamlEditorHandle>(null);
  /** The text is with the gateway: leaving loses nothing. */
  const done = useRef(false);
  const dirty = text !== base.text;
  const rested = useLater(text, pauseMs);
  const settled = rested === text;
  const check = useQuery({
    queryKey: ['config-file-check', base.version, rested],
    queryFn: async ({ signal }) =>
      (
        await dataOf(
          api.POST('/admin/config-file/check', { body: { text: rested, version: base.version }, signal }),
        )
      ).faults,
    enabled: settled && dirty,
    retry: false,
    placeholderData: keepPreviousData,
    gcTime: 0,
  });
  const stale = async (error: unknown): Promise<void> => {
    if (!(error instanceof ApiError)) return setFault(String(error));
    if (error.status === 412) return setTheirs(await readConfigFile());
    setFault(error.message);
  };
  const { error: checkError } = check;
  useEffect(() => {
    if (checkError !== null) void stale(checkError);
  }, [checkError]);
  const faults = dirty ? (check.data ?? none) : none;
  const errors = faults.filter(({ severity }) => severity === 'error');

  const refused = async (error: unknown): Promise<void> => {
    setReviewing(false);
    await stale(error);
  };
  const save = useMutation({
    mutationFn: () => dataOf(api.PUT('/admin/config-file', { body: { text, version: base.version } })),
    onSuccess: async (written) => {
      setReviewing(false);
      setFault(undefined);
      setResult(written);
      if (written.outcome !== 'failed') {
        // New secrets of the text are masks from now on.
        const read = await readConfigFile();
        if (read.text !== null) {
          setBase({ ...read, text: read.text });
          setText(read.text);
        }
      }
      await queries.invalidateQueries({ queryKey: ['status'] });
      await queries.invalidateQueries({ queryKey: ['config-file'] });
    },
    onError: refused,
  });
  const change = (next: string): void => {
    setText(next);
    setFault(undefined);
    setResult(undefined);
  };
  const ready = dirty && settled && !check.isFetching && errors.length === 0;
  const said = !dirty
    ? texts.same
    : !settled || check.isFetching
      ? texts.checking
      : errors.length === 0
        ? texts.noFaults
        : texts.faults(errors.length);
  return (
    <Page
      full
      title={texts.title(base.name)}
      intro={[texts.intro, ...(base.masked > 0 ? [texts.masked(base.masked)] : [])].join(' ')}
      actions={
        <>
          {dirty && <Badge tone="warn">{texts.unsaved}</Badge>}
          <Button onClick={onClose}>{texts.back}</Button>
          <Button kind="primary" disabled={!ready} onClick={() => setReviewing(true)}>
            <Save className="size-4" />
            {texts.review}
          </Button>
        </>
      }
    >
      {fault !== undefined && (
        <p role="alert" className="bg-bad-wash text-bad rounded p-2 break-words">
          {fault}
        </p>
      )}
      {result !== undefined && <Outcome result={result} />}
      <section className="border-line bg-panel flex min-h-80 min-w-0 grow flex-col overflow-hidden rounded-lg border">
        <p role="status" className="text-soft border-line border-b px-3 py-1.5">
          {said}
        </p>
        <div className="min-h-0 grow">
          <Suspense fallback={<Loading lines={12} />}>
            <YamlEditor
              label={texts.text}
              value={text}
              onChange={change}
              faults={faults}
              onSave={() => ready && setReviewing(true)}
              handle={editor}
            />
          </Suspense>
        </div>
        {faults.length > 0 && (
          <ul
            aria-label={texts.faultsLabel}
            className="border-line max-h-40 shrink-0 overflow-auto border-t py-1"
          >
            {faults.map((one, index) => (
              <FaultLine
                key={index}
                fault={one}
                onReveal={
                  one.file === base.name && one.line > 0
                    ? () => editor.current?.reveal(one.line, one.column)
                    : undefined
                }
              />
            ))}
          </ul>
        )}
      </section>
      <Dialog
        open={reviewing}
        onOpenChange={setReviewing}
        title={texts.reviewTitle}
        description={texts.reviewText}
        place="wide"
      >
        <LineDiff label={texts.diff} before={base.text} after={text} />
        <CanaryForm
          draft={{ text, version: base.version }}
          onStarted={() => {
            done.current = true;
            onClose();
          }}
          onFail={(error) => void refused(error)}
        />
        <DialogButtons
          onCancel={() => setReviewing(false)}
          submit={texts.save}
          onSubmit={() => save.mutate()}
          busy={save.isPending}
        />
      </Dialog>
      <Dialog
        open={theirs !== undefined}
        onOpenChange={(open) => !open && setTheirs(undefined)}
        title={common.stale.title}
        description={texts.staleText}
        place="wide"
      >
        {theirs !== undefined && (
          <LineDiff label={configs.stale.diff} before={theirs.text ?? ''} after={text} />
        )}
        <div className="flex justify-end gap-2">
          <Button
            onClick={() => {
              if (typeof theirs?.text === 'string') {
                setBase({ ...theirs, text: theirs.text });
                change(theirs.text);
              }
              setTheirs(undefined);
            }}
          >
            {common.stale.theirs}
          </Button>
          <Button
            kind="primary"
            onClick={() => {
              if (typeof theirs?.text === 'string') setBase({ ...theirs, text: theirs.text });
              setTheirs(undefined);
            }}
          >
            {texts.keepMine}
          </Button>
        </div>
      </Dialog>
      <Unsaved dirty={() => dirty && !done.current} within="edit" />
    </Page>
  );
}

const none: readonly Fault[] = [];

function FaultLine({
  fault,
  onReveal,
}: {
  readonly fault: Fault;
  readonly onReveal?: (() => void) | undefined;
}) {
  const { file, line, column, message, severity } = fault;
  const place = operations.pipelines.line(file, line, column);
  return (
    <li className="px-3 py-0.5 break-words">
      {onReveal === undefined ? (
        <code className="font-mono text-xs">{place}</code>
      ) : (
        <button type="button" className="text-accent font-mono text-xs underline" onClick={onReveal}>
          {place}
        </button>
      )}{' '}
      <span className={severity === 'error' ? 'text-bad' : 'text-soft'}>{message}</span>
    </li>
  );
}

function Outcome({ result }: { readonly result: Written }) {
  const { outcome, faults, restart_needed: restart } = result;
  const bad = outcome === 'failed';
  return (
    <div
      role={bad ? 'alert' : 'status'}
      className={bad ? 'bg-bad-wash text-bad rounded p-2' : 'bg-good-wash text-good rounded p-2'}
    >
      <p>{texts.outcomes[outcome]}</p>
      {restart !== null && <p className="text-warn">{restart}</p>}
      {faults.length > 0 && (
        <ul>
          {faults.map((one, index) => (
            <FaultLine key={index} fault={one} />
          ))}
        </ul>
      )}
    </div>
  );
}
