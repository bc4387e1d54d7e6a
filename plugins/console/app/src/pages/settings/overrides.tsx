import { useState } from 'react';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Pencil, RotateCcw } from 'lucide-react';
import { api } from '@/api/client';
import type { operations } from '@/api/schema.gen';
import { useSession } from '@/api/session';
import { categories, type Category, fieldsOf } from '@/pages/settings/categories';
import { LastChanged } from '@/pages/settings/last-changed';
import { type Versioned, versioned } from '@/resource/declaration';
import { RecordForm } from '@/resource/form';
import { ShownValue } from '@/resource/shown';
import { common } from '@/texts/common';
import { settings } from '@/texts/settings';
import { Button } from '@/ui/button';
import { Confirm } from '@/ui/dialog';
import { Card } from '@/ui/page';
import { Badge } from '@/ui/small';
import { Loaded } from '@/ui/states';
import { useToast } from '@/ui/toast';

type Own = operations['workspace_settings.get']['responses'][200]['content']['application/json'];
type Change = operations['workspace_settings.update']['requestBody']['content']['application/json'];
type Organisation = operations['organisation_settings.get']['responses'][200]['content']['application/json'];

const texts = settings.workspace;

/** What the organisation says, by category. */
function inheritedOf({ security, user_api_keys: keys, logging }: Organisation): Record<Category, object> {
  return { data_visibility: security, prompts: security, configs: security, user_api_keys: keys, logging };
}

/** The settings of one workspace: what it inherits, and what it says itself. */
export function Overrides({ workspaceId }: { readonly workspaceId: string }) {
  const params = { path: { workspaceId } };
  const get = (): Promise<Versioned<Own>> =>
    versioned(api.GET('/admin/workspaces/{workspaceId}/settings', { params }));
  const own = useQuery({ queryKey: ['settings', 'workspace', workspaceId], queryFn: get });
  const organisation = useQuery({
    queryKey: ['settings', 'organisation_settings'],
    queryFn: () => versioned(api.GET('/admin/organisation/settings')),
  });
  const put = async (body: Change, version: string | undefined): Promise<void> => {
    const headers = version === undefined ? {} : { 'if-match': version };
    await api.PUT('/admin/workspaces/{workspaceId}/settings', { params, body, headers });
    await own.refetch();
  };
  return (
    <Loaded query={own} lines={8}>
      {(stored) => (
        <Loaded query={organisation} lines={8}>
          {({ record }) => (
            <div className="grid gap-4">
              <LastChanged
                at={stored.record.last_updated_at}
                never={texts.never}
                kind="workspace_settings"
                id={workspaceId}
              />
              {categories.map((category) => (
                <OneCategory
                  key={`${workspaceId} ${category}`}
                  category={category}
                  stored={stored}
                  inherited={inheritedOf(record)[category]}
                  onStale={async () => (await own.refetch()).data ?? get()}
                  put={put}
                />
              ))}
            </div>
          )}
        </Loaded>
      )}
    </Loaded>
  );
}

interface CategoryProps {
  readonly category: Category;
  readonly stored: Versioned<Own>;
  readonly inherited: object;
  readonly onStale: () => Promise<Versioned<Own>>;
  readonly put: (body: Change, version: string | undefined) => Promise<void>;
}

function OneCategory({ category, stored, inherited, onStale, put }: CategoryProps) {
  const { may } = useSession();
  const say = useToast();
  const [edits, setEdits] = useState(false);
  const [resets, setResets] = useState(false);
  const { record, version } = stored;
  const isOwn = record.overrides[category] !== null;
  const allowed = record.allow_workspace_overrides.includes(category);
  const mayWrite = may('organisation_settings.update');
  const title = settings.overrides[category];
  const shownFields = fieldsOf<object>(category, '');
  const formFields = fieldsOf<Own>(category, `/overrides/${category}`, (one, name) => {
    const values = new Map(Object.entries(one.overrides[category] ?? inherited));
    return values.get(name);
  });
  return (
    <Card
      title={
        <span className="flex items-center gap-2">
          {title}
          <Badge tone={isOwn ? (allowed ? 'accent' : 'warn') : 'neutral'}>
            {isOwn ? (allowed ? texts.own : texts.notInForce) : texts.inherited}
          </Badge>
        </span>
      }
      actions={
        mayWrite &&
        !edits && (
          <>
            {isOwn && (
              <Button aria-label={texts.resetOf(title)} onClick={() => setResets(true)}>
                <RotateCcw className="size-4" />
                {texts.reset}
              </Button>
            )}
            {allowed && (
              <Button
                aria-label={(isOwn ? texts.editOf : texts.overrideOf)(title)}
                onClick={() => setEdits(true)}
              >
                <Pencil className="size-4" />
                {isOwn ? common.action.edit : texts.override}
              </Button>
            )}
          </>
        )
      }
    >
      <div className="p-4">
        {!allowed && (
          <p className="text-soft pb-2">
            {texts.notAllowed}{' '}
            {mayWrite && (
              <Link to="/settings" className="text-accent underline">
                {texts.allow}
              </Link>
            )}
          </p>
        )}
        {edits ? (
          <RecordForm
            sections={[{ title, fields: formFields }]}
            stored={stored}
            onStale={onStale}
            onCancel={() => setEdits(false)}
            onSubmit={async (body, seen) => {
              // The form makes the body of the declared fields; the gateway checks it.
              await put(body as Change, seen);
              say({ text: settings.saved, tone: 'good' });
              setEdits(false);
            }}
          />
        ) : (
          <table className="w-full" aria-label={title}>
            <thead>
              <tr className="text-soft text-left text-xs">
                <th className="font-medium">{texts.column.setting}</th>
                <th className="w-36 font-medium">{texts.column.organisation}</th>
                <th className="w-36 font-medium">{texts.column.workspace}</th>
              </tr>
            </thead>
            <tbody>
              {shownFields.map((field) => (
                <tr key={field.path} className="border-line border-t">
                  <th scope="row" className="py-1.5 pr-2 text-left font-normal">
                    {field.label}
                  </th>
                  <td className="py-1.5 pr-2">
                    <ShownValue field={field} record={inherited} />
                  </td>
                  <td className="py-1.5">
                    {isOwn ? (
                      <ShownValue field={field} record={record.overrides[category] ?? inherited} />
                    ) : (
                      <span className="text-soft">{texts.inherited}</span>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </div>
      <Confirm
        open={resets}
        onOpenChange={setResets}
        title={texts.resetOf(title)}
        text={texts.resetText}
        action={texts.reset}
        onConfirm={async () => {
          await put({ overrides: { [category]: null } }, version);
          say({ text: texts.resetDone, tone: 'good' });
        }}
      />
    </Card>
  );
}
