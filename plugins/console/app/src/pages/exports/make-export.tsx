import { useState, type FormEvent } from 'react';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { api, ApiError, dataOf } from '@/api/client';
import type { operations } from '@/api/schema.gen';
import { useCaller } from '@/api/session';
import { useAddress } from '@/lib/address';
import { filtersOf } from '@/lib/filters';
import { useWorkspaceNames } from '@/lib/names';
import { usePreferences } from '@/lib/preferences';
import { rangeOf, spanOf } from '@/lib/time-range';
import { exports as texts } from '@/texts/exports';
import { Button } from '@/ui/button';
import { Dialog } from '@/ui/dialog';
import { Checkbox, Field, Input, Select } from '@/ui/fields';
import { FilterBar } from '@/ui/filter-bar';
import { RangePicker } from '@/ui/range-picker';
import { Loaded } from '@/ui/states';
import { useToast } from '@/ui/toast';

type Body = operations['log_exports.create']['requestBody']['content']['application/json'];
type FieldName = Body['requested_data'][number];
type Format = NonNullable<Body['format']>;

const { form } = texts;
const formats = ['jsonl', 'csv', 'parquet'] as const;
/** Chosen before anything is chosen. */
const usual: readonly FieldName[] = [
  ...(['id', 'created_at', 'ai_org', 'ai_model', 'req_units', 'res_units'] as const),
  ...(['cost', 'response_time', 'response_status_code', 'metadata'] as const),
];
const bodies: readonly string[] = ['request', 'response'];

interface MakeExportProps {
  readonly onClose: () => void;
  readonly onMade: () => void;
}

/** A new export of the time and the filters of the address; it starts at once. */
export function MakeExport({ onClose, onMade }: MakeExportProps) {
  const restrictions = useQuery({
    queryKey: ['export-fields'],
    queryFn: ({ signal }) => dataOf(api.GET('/logs/exports/field-restrictions', { signal })),
    staleTime: 60_000,
  });
  return (
    <Dialog open onOpenChange={(open) => !open && onClose()} title={texts.make} place="side">
      <Loaded query={restrictions}>
        {({ allowed_fields: allowed }) => <ExportForm allowed={allowed} onMade={onMade} />}
      </Loaded>
    </Dialog>
  );
}

function ExportForm({
  allowed,
  onMade,
}: {
  readonly allowed: readonly FieldName[];
  readonly onMade: () => void;
}) {
  const { search } = useAddress();
  const { zone } = usePreferences();
  const caller = useCaller();
  const workspaces = useWorkspaceNames();
  const queries = useQueryClient();
  const say = useToast();
  const range = rangeOf(search, '7d');
  const filters = filtersOf(search);
  const [format, setFormat] = useState<Format>('csv');
  const [note, setNote] = useState('');
  const [fields, setFields] = useState<ReadonlySet<FieldName>>(
    () => new Set(usual.filter((field) => allowed.includes(field))),
  );
  const [chosen, setChosen] = useState<string>();
  // An export is of one workspace: a key of the organisation says of which.
  const mustChoose = !caller.type.startsWith('workspace') && filters.workspace_id === undefined;
  const workspace = chosen ?? caller.workspace_id;
  const make = useMutation({
    mutationFn: async () => {
      const { from, to } = spanOf(range, zone);
      const times = {
        time_of_generation_min: new Date(from).toISOString(),
        time_of_generation_max: new Date(to).toISOString(),
      };
      const body: Body = {
        filters: { ...filters, ...times },
        requested_data: allowed.filter((field) => fields.has(field)),
        format,
        description: note.trim(),
        ...(mustChoose && { workspace_id: workspace }),
      };
      const { id } = await dataOf(api.POST('/logs/exports', { body }));
      await api.POST('/logs/exports/{exportId}/start', { params: { path: { exportId: id } } });
    },
    onSuccess: () => {
      say({ text: texts.started, tone: 'good' });
      onMade();
    },
    // A draft that could not be started is listed, too.
    onSettled: () => queries.invalidateQueries({ queryKey: ['exports'] }),
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (fields.size > 0) make.mutate();
  };
  const toggle = (field: FieldName, on: boolean): void => {
    const next = new Set(fields);
    if (on) next.add(field);
    else next.delete(field);
    setFields(next);
  };
  return (
    <form className="grid gap-4" onSubmit={submit}>
      <div className="grid gap-1">
        <p className="font-medium">{form.time}</p>
        <RangePicker range={range} />
      </div>
      <div className="grid gap-1">
        <p className="font-medium">{form.filters}</p>
        {Object.keys(filters).length === 0 && <p className="text-soft">{form.all}</p>}
        {filters.search !== undefined && <p className="text-soft break-words">“{filters.search}”</p>}
        <FilterBar range={range} />
      </div>
      {mustChoose && workspaces.size > 0 && (
        <Field label={form.workspace}>
          {(control) => (
            <Select
              {...control}
              value={workspace}
              options={[...workspaces]}
              onChange={(event) => setChosen(event.target.value)}
            />
          )}
        </Field>
      )}
      <Field label={form.format}>
        {(control) => (
          <Select
            {...control}
            value={format}
            options={formats.map((one) => [one, form.formats[one]])}
            onChange={(event) => setFormat(event.target.value as Format)}
          />
        )}
      </Field>
      <fieldset className="grid gap-2">
        <legend className="mb-1 font-medium">{form.fields}</legend>
        <div className="grid grid-cols-2 gap-x-4 gap-y-1.5 sm:grid-cols-3">
          {allowed.map((field) => (
            <Checkbox
              key={field}
              label={texts.fields[field] ?? field}
              checked={fields.has(field)}
              onChange={(event) => toggle(field, event.target.checked)}
            />
          ))}
        </div>
        {bodies.some((field) => fields.has(field as FieldName)) && <p className="text-warn">{form.bodies}</p>}
        {fields.size === 0 && (
          <p role="alert" className="text-bad">
            {form.noFields}
          </p>
        )}
      </fieldset>
      <Field label={form.description}>
        {(control) => (
          <Input
            {...control}
            maxLength={200}
            value={note}
            onChange={(event) => setNote(event.target.value)}
          />
        )}
      </Field>
      {make.error !== null && (
        <p role="alert" className="text-bad">
          {make.error instanceof ApiError ? make.error.message : String(make.error)}
        </p>
      )}
      <div className="flex justify-end">
        <Button kind="primary" type="submit" busy={make.isPending} disabled={fields.size === 0}>
          {form.go}
        </Button>
      </div>
    </form>
  );
}
