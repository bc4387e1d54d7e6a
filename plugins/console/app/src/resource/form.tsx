import { useEffect, useMemo, useRef, useState, type FormEvent } from 'react';
import { ApiError } from '@/api/client';
import { useCaller } from '@/api/session';
import { Control } from '@/resource/controls';
import type { FormField, Section, Situation, Values, Versioned } from '@/resource/declaration';
import { ShownValue } from '@/resource/shown';
import { bodyOf, faultsAt, isChanged, same, storedValue, valuesOf } from '@/resource/values';
import { common } from '@/texts/common';
import { resource as texts } from '@/texts/resource';
import { Button } from '@/ui/button';
import { Unsaved } from '@/ui/unsaved';

interface FormProps<R extends object> {
  readonly sections: readonly Section<R>[];
  /** The record that is changed; undefined: a new one. */
  readonly stored: Versioned<R> | undefined;
  /** Values that a new record begins with, by path. */
  readonly initial?: Values;
  /** Rejects with the gateway's refusal. `version` is the one that the user has seen. */
  readonly onSubmit: (body: Record<string, unknown>, version: string | undefined) => Promise<void>;
  /** Reads what is stored now, after somebody else changed it. */
  readonly onStale?: () => Promise<Versioned<R>>;
  readonly onCancel: () => void;
  /** Says whether there is something to lose. */
  readonly onDirty?: (dirty: boolean) => void;
  readonly submit?: string;
}

/** A new record that needs a workspace begins with the one of the caller's key. */
function neededWorkspace<R extends object>(
  fields: readonly FormField<R>[],
  caller: Situation<R>['caller'],
): Values {
  const isNeeded = fields.some(({ path, required }) => path === '/workspace_id' && required === true);
  return isNeeded && caller.workspace_id ? { '/workspace_id': caller.workspace_id } : {};
}

/**
 * A form of a record: it sends what was changed, shows faults of the gateway at their fields, and, when somebody else
 * changed the record meanwhile, keeps what was typed and offers theirs or the user's.
 */
export function RecordForm<R extends object>(props: FormProps<R>) {
  const { sections, initial, onSubmit, onStale, onCancel, onDirty, submit } = props;
  const caller = useCaller();
  const fields = useMemo(() => sections.flatMap(({ fields: own }) => own), [sections]);
  // What the user began with stays, while the record is read again behind it.
  const [stored, setStored] = useState(props.stored);
  const [before, setBefore] = useState<Values>(() => ({
    ...valuesOf(fields, stored?.record),
    ...(stored === undefined && neededWorkspace(fields, caller)),
    ...initial,
  }));
  const [values, setValues] = useState(before);
  const [faults, setFaults] = useState<Readonly<Record<string, string>>>({});
  const [problem, setProblem] = useState<readonly string[]>([]);
  const [stale, setStale] = useState<Versioned<R>>();
  const [busy, setBusy] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  const situation: Situation<R> = { values, record: stored?.record, caller };

  const dirty = !same(values, before);
  useEffect(() => onDirty?.(dirty), [dirty, onDirty]);
  useEffect(() => {
    if (Object.keys(faults).length === 0) return;
    const field = form.current?.querySelector<HTMLElement>('[aria-invalid="true"]');
    // A control of several fields tells its fault below them.
    if (field) field.focus();
    else
      [...(form.current?.querySelectorAll('[role="alert"]') ?? [])]
        .at(-1)
        ?.scrollIntoView({ block: 'center' });
  }, [faults]);

  const send = async (version: string | undefined, isFirst = true): Promise<void> => {
    const { body, faults: own } = bodyOf(fields, { values, before, situation });
    setProblem([]);
    if (Object.keys(own).length > 0) return setFaults(own);
    setFaults({});
    setBusy(true);
    try {
      await onSubmit(body, version);
    } catch (error) {
      setBusy(false);
      if (!(error instanceof ApiError)) return setProblem([String(error)]);
      if (error.status === 412 && onStale) {
        const theirs = await onStale();
        // Something else of the record has changed, such as the answer of a server that the gateway has asked.
        const isSame = JSON.stringify(valuesOf(fields, theirs.record)) === JSON.stringify(before);
        if (!isSame || !isFirst) return setStale(theirs);
        setStored(theirs);
        return send(theirs.version, false);
      }
      const mistakes =
        error.mistakes.length > 0 || !error.param.startsWith('/')
          ? error.mistakes
          : [{ path: error.param, message: error.message }];
      const placed = faultsAt(fields, mistakes);
      setFaults(placed.faults);
      if (mistakes.length === 0) setProblem([error.message]);
      else setProblem(placed.rest.length > 0 ? placed.rest : [texts.refused]);
    }
  };
  const submitted = (event: FormEvent): void => {
    event.preventDefault();
    event.stopPropagation();
    void send(stored?.version);
  };
  const takeTheirs = (): void => {
    if (stale === undefined) return;
    const theirs = valuesOf(fields, stale.record);
    setStored(stale);
    setBefore(theirs);
    setValues(theirs);
    setStale(undefined);
  };
  const saveMine = (): void => {
    const version = stale?.version;
    setStored(stale);
    setStale(undefined);
    void send(version);
  };

  return (
    <form ref={form} onSubmit={submitted} className="flex grow flex-col gap-5">
      <Unsaved dirty={() => dirty} />
      {problem.length > 0 && (
        <div role="alert" className="bg-bad-wash text-bad rounded-md p-3">
          {problem.map((text) => (
            <p key={text} className="break-words">
              {text}
            </p>
          ))}
        </div>
      )}
      {stale !== undefined && (
        <Stale
          fields={fields}
          {...{ before, values }}
          theirs={stale.record}
          onTheirs={takeTheirs}
          onMine={saveMine}
        />
      )}
      {sections.map((section) => (
        <FormSection key={section.title} section={section} situation={situation} faults={faults}>
          {(field) => (
            <Control
              key={field.path}
              field={field}
              value={values[field.path]}
              onChange={(value) => setValues((all) => ({ ...all, [field.path]: value }))}
              fault={faults[field.path]}
              situation={situation}
              disabled={field.only === 'create' && stored !== undefined}
            />
          )}
        </FormSection>
      ))}
      <div className="border-line bg-panel sticky -bottom-5 -mx-5 mt-auto -mb-5 flex justify-end gap-2 border-t px-5 py-3">
        <Button onClick={onCancel}>{common.action.cancel}</Button>
        <Button kind="primary" type="submit" busy={busy} disabled={stored !== undefined && !dirty}>
          {submit ?? (stored === undefined ? common.action.create : common.action.save)}
        </Button>
      </div>
    </form>
  );
}

interface SectionProps<R extends object> {
  readonly section: Section<R>;
  readonly situation: Situation<R>;
  readonly faults: Readonly<Record<string, string>>;
  readonly children: (field: FormField<R>) => React.ReactNode;
}

function FormSection<R extends object>({ section, situation, faults, children }: SectionProps<R>) {
  const shown = section.fields.filter(
    (field) =>
      (field.shown?.(situation) ?? true) && !(field.only === 'update' && situation.record === undefined),
  );
  const { record } = situation;
  const isFilled =
    record !== undefined &&
    shown.some((field) => {
      const value = storedValue(field, record);
      return ![undefined, null, '', false].includes(value as null) && !same(value, []) && !same(value, {});
    });
  const hasFault = shown.some(({ path }) => faults[path] !== undefined);
  const [open, setOpen] = useState(section.folded !== true || isFilled);
  useEffect(() => {
    if (hasFault) setOpen(true);
  }, [hasFault]);
  if (shown.length === 0) return null;
  return (
    <details
      open={open}
      onToggle={(event) => setOpen(event.currentTarget.open)}
      className="border-line rounded-lg border"
    >
      <summary className="hover:bg-raised cursor-pointer rounded-lg px-4 py-2.5 font-semibold">
        {section.title}
      </summary>
      <div className="border-line grid gap-4 border-t p-4 sm:grid-cols-2">
        {section.help !== undefined && <p className="text-soft col-span-full">{section.help}</p>}
        {shown.map(children)}
      </div>
    </details>
  );
}

interface StaleProps<R extends object> {
  readonly fields: readonly FormField<R>[];
  readonly before: Values;
  readonly values: Values;
  readonly theirs: R;
  readonly onTheirs: () => void;
  readonly onMine: () => void;
}

/** Somebody else was faster: what is stored now beside what the user typed. */
function Stale<R extends object>({ fields, before, values, theirs, onTheirs, onMine }: StaleProps<R>) {
  const now = valuesOf(fields, theirs);
  const different = fields.filter(
    (field) => isChanged(field, now, before) || isChanged(field, values, before),
  );
  return (
    <div role="alert" className="bg-warn-wash border-warn/40 grid gap-2 rounded-md border p-3">
      <p className="text-warn font-semibold">{common.stale.title}</p>
      <p>{common.stale.text}</p>
      <dl className="grid gap-2">
        {different.map((field) => (
          <div key={field.path}>
            <dt className="font-medium">{field.label}</dt>
            <dd className="flex gap-2">
              <span className="text-soft shrink-0">{texts.stale.now}</span>
              <span className="min-w-0 break-words">
                <ShownValue field={field} record={theirs} />
              </span>
            </dd>
          </div>
        ))}
      </dl>
      <div className="flex gap-2">
        <Button onClick={onTheirs}>{common.stale.theirs}</Button>
        <Button kind="primary" onClick={onMine}>
          {common.stale.over}
        </Button>
      </div>
    </div>
  );
}
