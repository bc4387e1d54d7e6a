import { useState } from 'react';
import { useMutation } from '@tanstack/react-query';
import { RefreshCw } from 'lucide-react';
import { api, dataOf } from '@/api/client';
import type { operations } from '@/api/schema.gen';
import { useSession } from '@/api/session';
import { useAddressTexts } from '@/lib/address';
import { workspaceFinder, grantableScopes } from '@/resource/common-fields';
import { type Resource, type Tools, versioned } from '@/resource/declaration';
import { ResourcePage } from '@/resource/page';
import { Secret } from '@/resource/secret';
import { Tabs } from '@/resource/sheet';
import { people as texts } from '@/texts/people';
import { Button } from '@/ui/button';
import { Dialog } from '@/ui/dialog';
import { Page } from '@/ui/page';
import { Badge, Code, Time } from '@/ui/small';

type User = operations['users.get']['responses'][200]['content']['application/json'];
type UpdateUser = operations['users.update']['requestBody']['content']['application/json'];
type Invite = operations['invites.get']['responses'][200]['content']['application/json'];
type CreateInvite = operations['invites.create']['requestBody']['content']['application/json'];
/** The form's body: all workspaces get one role. */
type Invited = Omit<CreateInvite, 'workspaces'> & {
  readonly workspaces?: readonly string[];
  readonly manages?: boolean;
};

const nameOf = (user: User): string => `${user.first_name} ${user.last_name}`.trim() || user.email;
const userAt = (userId: string) => ({ path: { userId } });
const given = (['member', 'admin'] as const).map((value) => ({ value, text: texts.roles[value] }));
const roleOf = (text: string): { role?: User['role'] } =>
  text === 'owner' || text === 'admin' || text === 'member' ? { role: text } : {};

const users: Resource<User, unknown, UpdateUser> = {
  ...{ name: 'people', noun: texts.noun, title: texts.title, intro: texts.intro, empty: texts.empty },
  audit: 'users',
  id: ({ id }) => id,
  label: nameOf,
  words: ({ id, email }) => [id, email],
  statuses: (['', 'owner', 'admin', 'member'] as const).map((role) => [role, texts.roles[role]] as const),
  list: ({ page, size, status }) =>
    dataOf(
      api.GET('/admin/users', {
        params: { query: { current_page: page, page_size: size, ...roleOf(status) } },
      }),
    ),
  get: (id) => versioned(api.GET('/admin/users/{userId}', { params: userAt(id) })),
  columns: [
    {
      header: texts.column.name,
      cell: ({ row }) => <span className="font-medium">{nameOf(row.original)}</span>,
    },
    { header: texts.column.email, cell: ({ row }) => row.original.email },
    {
      header: texts.column.role,
      meta: { isState: true },
      cell: ({ row }) => <Badge>{texts.roles[row.original.role]}</Badge>,
    },
    { header: texts.column.workspaces, cell: ({ row }) => row.original.workspace_ids.length },
    { header: texts.column.since, cell: ({ row }) => <Time iso={row.original.created_at} ago /> },
  ],
  update: {
    scopes: ['organisation_users.update'],
    run: (id, body, headers) =>
      dataOf(api.PUT('/admin/users/{userId}', { params: userAt(id), body, headers })),
  },
  remove: {
    ...{ scopes: ['organisation_users.delete'], action: texts.remove, text: texts.removeText },
    typed: ({ email }) => email,
    run: (id, headers) => dataOf(api.DELETE('/admin/users/{userId}', { params: userAt(id), headers })),
  },
  sections: [
    {
      title: texts.section.person,
      fields: [
        { kind: 'text', path: '/first_name', label: texts.field.first },
        { kind: 'text', path: '/last_name', label: texts.field.last },
        {
          ...{ kind: 'choice', path: '/role', label: texts.field.role },
          options: ({ record }) =>
            record?.role === 'owner' ? [{ value: 'owner', text: texts.roles.owner }] : given,
          show: ({ role }) => texts.roles[role],
        },
      ],
    },
  ],
  details: ({ id, email, created_at: since }) => (
    <p className="flex flex-wrap items-center gap-x-4 gap-y-1">
      <Code text={email} />
      <span>
        {texts.field.id} <Code text={id} />
      </span>
      <span className="text-soft">
        {texts.column.since} <Time iso={since} />
      </span>
    </p>
  ),
};

const words = texts.invites;
const inviteAt = (inviteId: string) => ({ path: { inviteId } });
const send = ['completions.write', 'models.list', 'feedbacks.write'];
const tones = { pending: 'accent', accepted: 'good', expired: 'neutral', cancelled: 'neutral' } as const;
const statusOf = (text: string) =>
  text === 'accepted' || text === 'expired' || text === 'cancelled' ? text : ('pending' as const);

const invites: Resource<Invite, Invited> = {
  ...{ name: 'invites', noun: words.noun, title: words.title, intro: words.intro, empty: words.empty },
  audit: 'invites',
  id: ({ id }) => id,
  label: ({ email }) => email,
  statuses: Object.entries(words.statuses),
  list: ({ page, size, status }) =>
    dataOf(
      api.GET('/admin/users/invites', {
        params: { query: { current_page: page, page_size: size, status: statusOf(status) } },
      }),
    ),
  get: (id) => versioned(api.GET('/admin/users/invites/{inviteId}', { params: inviteAt(id) })),
  columns: [
    {
      header: words.column.email,
      cell: ({ row }) => <span className="font-medium">{row.original.email}</span>,
    },
    { header: words.column.role, cell: ({ row }) => texts.roles[row.original.role] },
    {
      header: words.column.status,
      meta: { isState: true },
      cell: ({ row: { original } }) => (
        <Badge tone={tones[original.status]}>{words.statuses[original.status]}</Badge>
      ),
    },
    { header: words.column.ends, cell: ({ row }) => <Time iso={row.original.expires_at} ago /> },
  ],
  create: {
    scopes: ['organisation_users.create'],
    run: ({ workspaces = [], manages = false, ...body }) =>
      dataOf(
        api.POST('/admin/users/invites', {
          body: {
            ...body,
            workspaces: workspaces.map((id) => ({
              id,
              role: manages ? ('manager' as const) : ('member' as const),
            })),
          },
        }),
      ),
    after: (reply, close) =>
      typeof reply === 'object' && reply !== null && 'invite_link' in reply ? (
        <Secret plain secret={String(reply.invite_link)} text={words.link} onDone={close} />
      ) : undefined,
  },
  remove: {
    ...{ scopes: ['organisation_users.delete'], action: words.cancel, text: words.cancelText },
    shown: ({ status }) => status === 'pending',
    run: (id, headers) =>
      dataOf(api.DELETE('/admin/users/invites/{inviteId}', { params: inviteAt(id), headers })),
  },
  sections: [
    {
      title: words.section.person,
      fields: [
        { kind: 'email', path: '/email', label: words.field.email, required: true },
        {
          ...{ kind: 'choice', path: '/role', label: words.field.role, initial: 'member', options: given },
        },
      ],
    },
    {
      title: words.section.access,
      fields: [
        {
          ...{ kind: 'reference', path: '/workspaces', several: true, label: words.field.workspaces },
          ...{ help: words.field.workspacesHelp, wide: true },
          find: workspaceFinder,
          from: ({ workspaces }) => workspaces.map(({ id }) => id),
        },
        {
          ...{ kind: 'toggle', path: '/manages', label: words.field.manager },
          from: ({ workspaces }) => workspaces.some(({ role }) => role === 'manager'),
          send: (value) => (value === true ? true : undefined),
        },
        {
          ...{ kind: 'scopes', path: '/workspace_api_key_details/scopes', label: words.field.scopes },
          ...{ help: words.field.scopesHelp, initial: send },
          shown: ({ values }) => Array.isArray(values['/workspaces']) && values['/workspaces'].length > 0,
          options: ({ caller }) => grantableScopes(caller.scopes, false),
          presets: [
            { text: words.presets.send, scopes: send },
            { text: words.presets.see, scopes: [...send, 'logs.list', 'logs.view', 'analytics.view'] },
          ],
        },
      ],
    },
  ],
  details: ({ status, expires_at: ends }) => (
    <p className="flex items-center gap-3">
      <Badge tone={tones[status]}>{words.statuses[status]}</Badge>
      <span className="text-soft">
        {words.field.ends} <Time iso={ends} />
      </span>
    </p>
  ),
  actions: (invite, tools) =>
    (invite.status === 'pending' || invite.status === 'expired') && <Resend {...{ invite, tools }} />,
};

function Resend({ invite, tools }: { readonly invite: Invite; readonly tools: Tools }) {
  const { may } = useSession();
  const [link, setLink] = useState<string>();
  const sending = useMutation({
    mutationFn: () =>
      dataOf(api.POST('/admin/users/invites/{inviteId}/resend', { params: inviteAt(invite.id) })),
    onSuccess: async ({ invite_link: made }) => {
      setLink(made);
      await tools.refresh();
    },
  });
  if (!may('organisation_users.create')) return null;
  return (
    <>
      <Button busy={sending.isPending} onClick={() => sending.mutate()}>
        <RefreshCw className="size-4" />
        {words.resend}
      </Button>
      {sending.error !== null && (
        <p role="alert" className="text-bad">
          {sending.error.message}
        </p>
      )}
      <Dialog open={link !== undefined} onOpenChange={() => setLink(undefined)} title={words.resendTitle}>
        <Secret plain secret={link ?? ''} text={words.link} onDone={() => setLink(undefined)} />
      </Dialog>
    </>
  );
}

/** People of the organisation, and invites. */
export default function People() {
  const [{ show }, change] = useAddressTexts();
  const shown = show === 'invites' ? 'invites' : 'people';
  const none = { open: undefined, edit: undefined, new: undefined, search: undefined, status: undefined };
  return (
    <Page title={texts.title}>
      <Tabs
        tabs={Object.entries(texts.tabs)}
        chosen={shown}
        onChange={(next) => change({ ...none, page: undefined, show: next === 'people' ? undefined : next })}
      />
      {shown === 'people' && <ResourcePage key="people" inner resource={users} />}
      {shown === 'invites' && <ResourcePage key="invites" inner resource={invites} />}
    </Page>
  );
}
