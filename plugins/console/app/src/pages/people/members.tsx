import { useState } from 'react';
import { useMutation, useQuery } from '@tanstack/react-query';
import { UserMinus } from 'lucide-react';
import { api, dataOf } from '@/api/client';
import type { operations } from '@/api/schema.gen';
import { useSession } from '@/api/session';
import { userFinder } from '@/resource/common-fields';
import { Reference } from '@/resource/reference';
import { people } from '@/texts/people';
import { Button, IconButton } from '@/ui/button';
import { type Columns, DataTable } from '@/ui/data-table';
import { Confirm } from '@/ui/dialog';
import { Field, Select } from '@/ui/fields';
import { Time } from '@/ui/small';
import { Empty, Loaded } from '@/ui/states';
import { useToast } from '@/ui/toast';

type Member = Omit<
  operations['workspace_users.list']['responses'][200]['content']['application/json']['data'][number],
  // Always null; the client leaves such members out.
  'settings'
>;
type Role = Member['role'];

const texts = people.members;
const roles = (['member', 'manager'] as const).map((role) => [role, people.roles[role]] as const);
const readRole = (text: string): Role => (text === 'manager' ? 'manager' : 'member');
const nameOf = (member: Member): string => `${member.first_name} ${member.last_name}`.trim() || member.email;

/** The members of a workspace: adds them, gives them another role, takes them out. */
export function Members({ workspaceId }: { readonly workspaceId: string }) {
  const { may } = useSession();
  const say = useToast();
  const [leaving, setLeaving] = useState<Member>();
  const [person, setPerson] = useState('');
  const [role, setRole] = useState<Role>('member');
  const path = { workspaceId };
  const query = useQuery({
    queryKey: ['workspaces', 'members', workspaceId],
    queryFn: () =>
      dataOf(
        api.GET('/admin/workspaces/{workspaceId}/users', { params: { path, query: { page_size: 100 } } }),
      ),
  });
  const adding = useMutation({
    mutationFn: () =>
      dataOf(
        api.POST('/admin/workspaces/{workspaceId}/users', {
          params: { path },
          body: { users: [{ id: person, role }] },
        }),
      ),
    onSuccess: async () => {
      setPerson('');
      await query.refetch();
      say({ text: texts.added, tone: 'good' });
    },
  });
  const changing = useMutation({
    mutationFn: ({ id, to }: { id: string; to: Role }) =>
      dataOf(
        api.PUT('/admin/workspaces/{workspaceId}/users/{userId}', {
          params: { path: { ...path, userId: id } },
          body: { role: to },
        }),
      ),
    onSuccess: () => say({ text: texts.changed, tone: 'good' }),
    onError: (error) => say({ text: error.message, tone: 'bad' }),
    onSettled: () => query.refetch(),
  });
  const columns: Columns<Member> = [
    { header: texts.column.name, cell: ({ row }) => nameOf(row.original) },
    { header: texts.column.email, cell: ({ row }) => row.original.email },
    {
      header: texts.column.role,
      cell: ({ row: { original } }) =>
        may('workspace_users.update') ? (
          <Select
            className="w-28"
            aria-label={texts.roleOf(nameOf(original))}
            options={roles}
            value={original.role}
            onChange={({ target }) => changing.mutate({ id: original.id, to: readRole(target.value) })}
          />
        ) : (
          people.roles[original.role]
        ),
    },
    { header: texts.column.since, cell: ({ row }) => <Time iso={row.original.created_at} ago /> },
    {
      ...{ id: 'remove', header: '', meta: { isActions: true } },
      cell: ({ row: { original } }) =>
        may('workspace_users.delete') && (
          <IconButton label={texts.removeOf(nameOf(original))} onClick={() => setLeaving(original)}>
            <UserMinus className="size-4" />
          </IconButton>
        ),
    },
  ];
  return (
    <div className="grid gap-4">
      {may('workspace_users.create') && (
        <form
          aria-label={texts.add}
          className="flex flex-wrap items-end gap-2"
          onSubmit={(event) => {
            event.preventDefault();
            if (person !== '') adding.mutate();
          }}
        >
          <Field label={texts.person} fault={adding.error?.message} className="w-72">
            {(control) => (
              <Reference
                {...control}
                label={texts.person}
                value={person}
                onChange={(value) => setPerson([value].flat()[0] ?? '')}
                find={userFinder}
              />
            )}
          </Field>
          <Field label={texts.role}>
            {(control) => (
              <Select
                {...control}
                className="w-28"
                options={roles}
                value={role}
                onChange={(event) => setRole(readRole(event.target.value))}
              />
            )}
          </Field>
          <Button type="submit" kind="primary" busy={adding.isPending} disabled={person === ''}>
            {texts.addButton}
          </Button>
        </form>
      )}
      <Loaded query={query}>
        {({ data }) =>
          data.length === 0 ? (
            <Empty title={texts.none} text={texts.noneText} />
          ) : (
            <DataTable label={texts.tab} columns={columns} rows={data} rowId={({ id }) => id} />
          )
        }
      </Loaded>
      <Confirm
        open={leaving !== undefined}
        onOpenChange={() => setLeaving(undefined)}
        title={texts.removeTitle(leaving === undefined ? '' : nameOf(leaving))}
        text={texts.removeText}
        action={texts.remove}
        onConfirm={async () => {
          await api.DELETE('/admin/workspaces/{workspaceId}/users/{userId}', {
            params: { path: { ...path, userId: leaving?.id ?? '' } },
          });
          await query.refetch();
          say({ text: texts.removed, tone: 'good' });
        }}
      />
    </div>
  );
}
