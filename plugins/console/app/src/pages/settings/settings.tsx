import { useState } from 'react';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Pencil } from 'lucide-react';
import { api } from '@/api/client';
import type { operations } from '@/api/schema.gen';
import { useSession } from '@/api/session';
import { useAddressTexts } from '@/lib/address';
import { findConfigs } from '@/resource/common-fields';
import { type FormField, type Section, type Versioned, versioned } from '@/resource/declaration';
import { RecordForm } from '@/resource/form';
import { ShownRecord } from '@/resource/shown';
import { Tabs } from '@/resource/sheet';
import { common } from '@/texts/common';
import { resource as words } from '@/texts/resource';
import { settings as texts } from '@/texts/settings';
import { Button } from '@/ui/button';
import { Card, Page } from '@/ui/page';
import { Time } from '@/ui/small';
import { Loaded } from '@/ui/states';
import { useToast } from '@/ui/toast';

type Settings = operations['organisation_settings.get']['responses'][200]['content']['application/json'];
type Defaults = operations['organisation_defaults.get']['responses'][200]['content']['application/json'];
type NewSettings = operations['organisation_settings.update']['requestBody']['content']['application/json'];
type NewDefaults = operations['organisation_defaults.update']['requestBody']['content']['application/json'];

const flags = (part: 'Data' | 'Analytics' | 'Prompts' | 'Configs'): FormField<Settings>[] =>
  Object.entries(texts.flags)
    .filter(([name]) => name.endsWith(part))
    .map(([name, label]) => ({ kind: 'toggle', path: `/security/${name}`, label }));

const sections: readonly Section<Settings>[] = [
  { title: texts.section.data, fields: [...flags('Data'), ...flags('Analytics')] },
  { title: texts.section.prompts, fields: flags('Prompts') },
  { title: texts.section.configs, fields: flags('Configs') },
  {
    title: texts.section.keys,
    fields: Object.entries(texts.keys).map(([name, label]) => ({
      ...{ kind: 'number', path: `/user_api_keys/${name}`, label, help: texts.keysHelp },
      ...{ whole: true, min: 0 },
    })),
  },
  {
    title: texts.section.logging,
    fields: [
      {
        ...{ kind: 'choice', path: '/logging/mode', label: texts.logging },
        options: Object.entries(texts.modes).map(([value, text]) => ({ value, text })),
      },
    ],
  },
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
        find: (search) => findConfigs(search),
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
                onStale={get}
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
                <p className="text-soft flex flex-wrap gap-x-3">
                  {stored.record.last_updated_at === null ? (
                    texts.never
                  ) : (
                    <span>
                      {texts.changed} <Time iso={stored.record.last_updated_at} />
                    </span>
                  )}
                  {may('audit_logs.list') && (
                    <Link to="/audit" search={{ resource: name }} className="text-accent underline">
                      {words.audit}
                    </Link>
                  )}
                </p>
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

/** Settings of the organisation, and defaults of its requests. */
export default function SettingsPage() {
  const [{ show }, change] = useAddressTexts();
  const shown = show === 'defaults' ? 'defaults' : 'settings';
  return (
    <Page title={texts.title}>
      <Tabs
        tabs={Object.entries(texts.tabs)}
        chosen={shown}
        onChange={(next) => change({ show: next === 'settings' ? undefined : next })}
      />
      {shown === 'settings' ? (
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
      ) : (
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
