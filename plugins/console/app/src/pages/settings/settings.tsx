import { useState } from 'react';
import { useQuery } from '@tanstack/react-query';
import { Pencil } from 'lucide-react';
import { api } from '@/api/client';
import type { operations } from '@/api/schema.gen';
import { useSession } from '@/api/session';
import { useAddressTexts } from '@/lib/address';
import { useWorkspaceNames } from '@/lib/names';
import { fieldsOf } from '@/pages/settings/categories';
import { LastChanged } from '@/pages/settings/last-changed';
import { Overrides } from '@/pages/settings/overrides';
import { configFinder } from '@/resource/common-fields';
import { type Section, type Versioned, versioned } from '@/resource/declaration';
import { RecordForm } from '@/resource/form';
import { ShownRecord } from '@/resource/shown';
import { Tabs } from '@/resource/sheet';
import { common } from '@/texts/common';
import { settings as texts } from '@/texts/settings';
import { Button } from '@/ui/button';
import { Field, Select } from '@/ui/fields';
import { Card, Page } from '@/ui/page';
import { Empty, Loaded } from '@/ui/states';
import { useToast } from '@/ui/toast';

type Settings = operations['organisation_settings.get']['responses'][200]['content']['application/json'];
type Defaults = operations['organisation_defaults.get']['responses'][200]['content']['application/json'];
type NewSettings = operations['organisation_settings.update']['requestBody']['content']['application/json'];
type NewDefaults = operations['organisation_defaults.update']['requestBody']['content']['application/json'];

const sections: readonly Section<Settings>[] = [
  { title: texts.section.data, fields: fieldsOf('data_visibility', '/security') },
  { title: texts.section.prompts, fields: fieldsOf('prompts', '/security') },
  { title: texts.section.configs, fields: fieldsOf('configs', '/security') },
  { title: texts.section.keys, fields: fieldsOf('user_api_keys', '/user_api_keys') },
  { title: texts.section.logging, fields: fieldsOf('logging', '/logging') },
  {
    title: texts.section.overrides,
    fields: [
      {
        ...{ kind: 'choices', path: '/allow_workspace_overrides', label: texts.overridesLabel },
        help: texts.overridesHelp,
        options: Object.entries(texts.overrides).map(([value, text]) => ({ value, text })),
      },
    ],
  },
];

const defaults: readonly Section<Defaults>[] = [
  {
    title: texts.section.defaults,
    fields: [
      { kind: 'pairs', path: '/metadata', label: texts.defaults.metadata },
      {
        ...{ kind: 'reference', path: '/config_id', label: texts.defaults.config, wide: true },
        find: configFinder,
      },
      {
        ...{ kind: 'lines', path: '/input_guardrails', label: texts.defaults.input, wide: false },
        help: texts.defaults.guardrailsHelp,
      },
      {
        ...{ kind: 'lines', path: '/output_guardrails', label: texts.defaults.output, wide: false },
        help: texts.defaults.guardrailsHelp,
      },
    ],
  },
];

interface SingleProps<R extends object> {
  readonly name: string;
  readonly title: string;
  readonly intro: string;
  readonly sections: readonly Section<R>[];
  readonly get: () => Promise<Versioned<R>>;
  readonly put: (body: Record<string, unknown>, headers: Record<string, string>) => Promise<unknown>;
  readonly note?: (record: R) => string;
}

/** One record that is always there: shown, and changed in the same place. */
function Single<R extends object & { readonly last_updated_at: string | null }>(props: SingleProps<R>) {
  const { name, title, intro, sections: own, get, put, note } = props;
  const { may } = useSession();
  const say = useToast();
  const [edits, setEdits] = useState(false);
  const query = useQuery({ queryKey: ['settings', name], queryFn: get });
  const edit = may('organisation_settings.update') && !edits && (
    <Button kind="primary" onClick={() => setEdits(true)}>
      <Pencil className="size-4" />
      {common.action.edit}
    </Button>
  );
  return (
    <Card title={title} actions={edit} className="max-w-4xl">
      <div className="flex flex-col gap-5 p-5">
        <p className="text-soft max-w-prose">{intro}</p>
        <Loaded query={query} lines={10}>
          {(stored) =>
            edits ? (
              <RecordForm
                sections={own}
                stored={stored}
                onStale={async () => (await query.refetch()).data ?? get()}
                onCancel={() => setEdits(false)}
                onSubmit={async (body, version) => {
                  await put(body, version === undefined ? {} : { 'if-match': version });
                  await query.refetch();
                  say({ text: texts.saved, tone: 'good' });
                  setEdits(false);
                }}
              />
            ) : (
              <>
                <LastChanged at={stored.record.last_updated_at} never={texts.never} kind={name} />
                {note !== undefined && <p className="text-soft">{note(stored.record)}</p>}
                <ShownRecord sections={own} record={stored.record} />
              </>
            )
          }
        </Loaded>
      </div>
    </Card>
  );
}

/** What one workspace says instead of the organisation. */
function OneWorkspace() {
  const [{ workspace }, change] = useAddressTexts();
  const names = useWorkspaceNames();
  const [first] = names.keys();
  const chosen = workspace ?? first;
  if (chosen === undefined) return <Empty title={texts.workspace.none} />;
  return (
    <div className="grid max-w-4xl gap-4">
      <p className="text-soft max-w-prose">{texts.workspace.intro}</p>
      <Field label={texts.workspace.choose} className="w-72">
        {(control) => (
          <Select
            {...control}
            value={chosen}
            options={[...names]}
            onChange={(event) => change({ workspace: event.target.value })}
          />
        )}
      </Field>
      <Overrides workspaceId={chosen} />
    </div>
  );
}

/** Settings of the organisation, defaults of its requests, and what a workspace says instead. */
export default function SettingsPage() {
  const [{ show }, change] = useAddressTexts();
  const shown = show === 'defaults' || show === 'workspace' ? show : 'settings';
  return (
    <Page title={texts.title}>
      <Tabs
        tabs={Object.entries(texts.tabs)}
        chosen={shown}
        onChange={(next) => change({ show: next === 'settings' ? undefined : next, workspace: undefined })}
      />
      {shown === 'workspace' && <OneWorkspace />}
      {shown === 'settings' && (
        <Single
          name="organisation_settings"
          title={texts.tabs.settings}
          intro={texts.intro}
          sections={sections}
          get={() => versioned(api.GET('/admin/organisation/settings'))}
          // The form makes the body of the declared fields; the gateway checks it.
          put={(body, headers) =>
            api.PUT('/admin/organisation/settings', { body: body as NewSettings, headers })
          }
          note={({ retention }) => texts.retention(retention.logs_days, retention.metrics_days)}
        />
      )}
      {shown === 'defaults' && (
        <Single
          name="organisation_defaults"
          title={texts.tabs.defaults}
          intro={texts.defaultsIntro}
          sections={defaults}
          get={() => versioned(api.GET('/admin/organisation/defaults'))}
          put={(body, headers) =>
            api.PUT('/admin/organisation/defaults', { body: body as NewDefaults, headers })
          }
        />
      )}
    </Page>
  );
}
