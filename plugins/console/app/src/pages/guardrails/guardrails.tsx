import { api, dataOf } from '@/api/client';
import type { operations } from '@/api/schema.gen';
import { list } from '@/lib/format';
import { Checks, type Check, type Guardrail } from '@/pages/guardrails/checks';
import { TryGuardrail, UsedBy } from '@/pages/guardrails/try';
import { workspaceField } from '@/resource/common-fields';
import { type Resource, versioned } from '@/resource/declaration';
import { ResourcePage } from '@/resource/page';
import { common } from '@/texts/common';
import { guardrails as texts } from '@/texts/guardrails';
import { Checkbox, Field, Input, Select } from '@/ui/fields';
import { Badge, Code, Time } from '@/ui/small';

type Entry = operations['guardrails.list']['responses'][200]['content']['application/json']['data'][number];
type Create = NonNullable<operations['guardrails.create']['requestBody']>['content']['application/json'];
type Update = NonNullable<operations['guardrails.update']['requestBody']>['content']['application/json'];
type Actions = Guardrail['actions'];
/** A guardrail; in the list without its checks. */
type Row = Entry & Partial<Pick<Guardrail, 'checks' | 'actions'>>;

const at = (guardrailId: string) => ({ path: { guardrailId } });
const both = (action: string): string[] => [`guardrails.${action}`, `organisation_guardrails.${action}`];
const noActions: Actions = { deny: false, async: false, sequential: false };

const guardrails: Resource<Row, Create, Update> = {
  ...{ name: 'guardrails', noun: texts.noun, title: texts.title, intro: texts.intro, empty: texts.empty },
  ...{ audit: 'guardrails', inWorkspace: true },
  id: ({ id }) => id,
  label: ({ name }) => name,
  words: ({ slug }) => [slug],
  list: ({ page, size, workspace }) =>
    dataOf(
      api.GET('/guardrails', {
        params: {
          query: {
            ...{ current_page: page, page_size: size },
            ...(workspace !== '' && { workspace_id: workspace }),
          },
        },
      }),
    ),
  get: (id) => versioned(api.GET('/guardrails/{guardrailId}', { params: at(id) })),
  columns: [
    {
      header: texts.column.name,
      cell: ({ row }) => <span className="font-medium">{row.original.name}</span>,
    },
    { header: texts.column.slug, cell: ({ row }) => <Code text={row.original.slug} /> },
    {
      header: texts.column.place,
      cell: ({ row }) => (
        <Badge>{row.original.workspace_id === null ? texts.organisation : texts.workspace}</Badge>
      ),
    },
    { header: texts.column.changed, cell: ({ row }) => <Time iso={row.original.last_updated_at} ago /> },
  ],
  create: { scopes: both('create'), run: (body) => dataOf(api.POST('/guardrails', { body })) },
  update: {
    scopes: both('update'),
    run: (id, body, headers) =>
      dataOf(api.PUT('/guardrails/{guardrailId}', { params: at(id), body, headers })),
  },
  remove: {
    ...{ scopes: both('delete'), action: common.action.delete, text: texts.removeText },
    run: (id, headers) => dataOf(api.DELETE('/guardrails/{guardrailId}', { params: at(id), headers })),
  },
  sections: [
    {
      title: texts.section.checks,
      fields: [
        { kind: 'text', path: '/name', label: texts.field.name, required: true },
        workspaceField<Row>({ none: texts.field.workspaceNone }),
        {
          ...{ kind: 'own', path: '/checks', label: texts.field.checks, required: true, initial: [] },
          control: ({ value, onChange, disabled }) => (
            <Checks value={(value ?? []) as readonly Check[]} onChange={onChange} disabled={disabled} />
          ),
          show: ({ checks = [] }) => <ShownChecks checks={checks} />,
        },
      ],
    },
    {
      title: texts.section.reaction,
      fields: [
        {
          ...{ kind: 'own', path: '/actions', label: texts.section.reaction, initial: noActions },
          control: ({ value, onChange, disabled }) => (
            <Reaction value={(value ?? noActions) as Actions} onChange={onChange} disabled={disabled} />
          ),
          show: ({ actions = noActions }) => <ShownReaction actions={actions} />,
        },
      ],
    },
  ],
  details: ({ slug, id }) => (
    <p className="flex flex-wrap items-center gap-x-4 gap-y-1">
      <Code text={slug} /> <Code text={id} />
    </p>
  ),
  tabs: [
    {
      ...{ key: 'try', text: texts.tabs.try, scopes: ['completions.write'] },
      body: (record) => <TryGuardrail guardrail={record as Guardrail} />,
    },
    { key: 'used', text: texts.tabs.used, body: (record) => <UsedBy guardrail={record as Guardrail} /> },
  ],
};

/** `/guardrails`. */
export default function Guardrails() {
  return <ResourcePage resource={guardrails} />;
}

function ShownChecks({ checks }: { readonly checks: readonly Check[] }) {
  return (
    <ul className="grid gap-2">
      {checks.map(({ id, is_enabled: isEnabled, parameters = {} }, index) => (
        <li key={index} className="grid gap-0.5">
          <span className="flex items-center gap-2">
            <span className="font-mono text-xs font-semibold">{id}</span>
            {!isEnabled && <Badge tone="warn">{texts.off}</Badge>}
          </span>
          {Object.entries(parameters).map(([name, value]) => (
            <span key={name} className="pl-3 font-mono text-xs wrap-anywhere">
              <span className="text-soft">{name}: </span>
              {Array.isArray(value) && value.every((one) => typeof one === 'string')
                ? list(value)
                : typeof value === 'string'
                  ? value
                  : JSON.stringify(value)}
            </span>
          ))}
        </li>
      ))}
    </ul>
  );
}

function ShownReaction({ actions }: { readonly actions: Actions }) {
  const { deny, async, sequential, stream, on_fail: fails, on_success: succeeds } = actions;
  return (
    <ul className="grid gap-0.5">
      <li>{deny ? texts.field.deny : texts.field.denyHelp}</li>
      {async && <li>{texts.field.async}</li>}
      {sequential && <li>{texts.field.sequential}</li>}
      {stream !== undefined && <li>{texts.field.streams[stream]}</li>}
      {fails && <li>{texts.field.failing(String(fails.feedback.value))}</li>}
      {succeeds && <li>{texts.field.passing(String(succeeds.feedback.value))}</li>}
    </ul>
  );
}

interface ReactionProps {
  readonly value: Actions;
  readonly onChange: (value: Actions) => void;
  readonly disabled: boolean;
}

function Reaction({ value, onChange, disabled }: ReactionProps) {
  const toggle = (name: 'deny' | 'async' | 'sequential', help?: string) => (
    <div>
      <Checkbox
        label={texts.field[name]}
        disabled={disabled}
        checked={value[name]}
        onChange={({ target }) => onChange({ ...value, [name]: target.checked })}
      />
      {help !== undefined && <p className="text-soft pl-6 text-xs">{help}</p>}
    </div>
  );
  const feedback = (name: 'on_fail' | 'on_success', label: string) => (
    <Field label={label} help={texts.field.feedbackHelp}>
      {(control) => (
        <Input
          {...control}
          type="number"
          step="any"
          min={-10}
          max={10}
          disabled={disabled}
          value={value[name]?.feedback.value ?? ''}
          onChange={({ target }) => {
            const { [name]: before, ...others } = value;
            const { weight = 1, metadata = '' } = before?.feedback ?? {};
            const given = { feedback: { value: Number(target.value), weight, metadata } };
            onChange(target.value === '' ? others : { ...others, [name]: given });
          }}
        />
      )}
    </Field>
  );
  return (
    <div className="grid gap-3">
      {toggle('deny', texts.field.denyHelp)}
      {toggle('async', texts.field.asyncHelp)}
      {toggle('sequential')}
      <Field label={texts.field.stream}>
        {(control) => (
          <Select
            {...control}
            disabled={disabled}
            value={value.stream ?? ''}
            options={Object.entries(texts.field.streams)}
            onChange={({ target }) => {
              const { stream: _, ...others } = value;
              onChange(
                target.value === ''
                  ? others
                  : { ...others, stream: target.value as NonNullable<Actions['stream']> },
              );
            }}
          />
        )}
      </Field>
      <div className="grid gap-3 sm:grid-cols-2">
        {feedback('on_fail', texts.field.onFail)}
        {feedback('on_success', texts.field.onSuccess)}
      </div>
    </div>
  );
}
