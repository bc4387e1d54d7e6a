import type { ReactNode } from 'react';
import { useNavigate } from '@tanstack/react-router';
import { type Search, useAddressTexts } from '@/lib/address';
import { useWorkspaceNames } from '@/lib/names';
import { type Entry, type Names, useLastName } from '@/pages/audit/names';
import { recordPlace } from '@/resource/record-place';
import { Facts } from '@/resource/shown';
import { auditKinds } from '@/resource/who-changed';
import { audit as texts } from '@/texts/audit';
import { Button } from '@/ui/button';
import { Dialog } from '@/ui/dialog';
import { Badge, Code, CodeBlock, Time } from '@/ui/small';

/** Whether it was done, with its status. */
export function Outcome({ entry }: { readonly entry: Entry }) {
  const refused = entry.response_status_code >= 400;
  return (
    <Badge tone={refused ? 'bad' : 'good'}>
      {refused ? texts.refused : texts.done} {entry.response_status_code}
    </Badge>
  );
}

/** Closes the entry that the address opens. */
export const closed = { open: undefined, at: undefined };

/** Where the record of an entry is shown; what is gone has no place. */
function placeOf({ action, resource_type: kind, resource_id: id, workspace_id: workspace }: Entry) {
  if (kind === 'workspace_users' && workspace !== '')
    return { to: '/workspaces', search: { open: workspace, tab: 'members' } };
  return id === '' || action === 'delete' ? undefined : recordPlace(kind, id);
}

interface EntrySheetProps {
  readonly entry: Entry;
  readonly names: Names;
  /** Takes the filters of the list out of the address. */
  readonly noFilters: Search;
}

/** All that one entry says. */
export function EntrySheet({ entry, names, noFilters }: EntrySheetProps) {
  const [, change] = useAddressTexts();
  const navigate = useNavigate();
  const words = texts.details;
  const place = placeOf(entry);
  const current = names.ofRecord(entry);
  const last = useLastName(entry, current === undefined);
  const name = current ?? last;
  const workspace = useWorkspaceNames().get(entry.workspace_id);
  const bodies = [
    [words.body, entry.request_body],
    [words.query, entry.query_params],
    [words.headers, entry.request_headers],
  ] as const;
  return (
    <Dialog
      open
      place="side"
      title={`${entry.action} ${entry.resource_type.replaceAll('_', ' ')}`}
      onOpenChange={(open) => {
        if (!open) change(closed);
      }}
    >
      <div className="flex flex-wrap gap-2">
        {place !== undefined && (
          <Button
            kind="primary"
            onClick={() => void navigate({ to: place.to, search: place.search as object })}
          >
            {words.openRecord}
          </Button>
        )}
        <Button onClick={() => change({ ...noFilters, ...closed, actor: entry.user_id })}>
          {words.sameActor}
        </Button>
        {entry.resource_id !== '' && (
          <Button
            onClick={() =>
              change({
                ...noFilters,
                ...{ ...closed, resource: auditKinds(entry.resource_type), id: entry.resource_id },
              })
            }
          >
            {words.sameRecord}
          </Button>
        )}
      </div>
      <Facts
        rows={[
          [
            words.who,
            <WithId id={entry.user_id}>
              {names.ofActor(entry)} <Badge>{texts.actors[entry.user_type]}</Badge>
            </WithId>,
          ],
          ...(entry.api_key_id === ''
            ? []
            : [[words.key, <WithId id={entry.api_key_id}>{names.ofKey(entry.api_key_id)}</WithId>] as const]),
          [words.when, <Time iso={entry.timestamp} />],
          [
            words.what,
            <WithId id={entry.resource_id}>
              {entry.resource_type.replaceAll('_', ' ')} {name !== undefined && <b>{name}</b>}
            </WithId>,
          ],
          [words.result, <Outcome entry={entry} />],
          ...(entry.error === '' ? [] : [[words.reason, entry.error] as const]),
          [words.request, <Code text={`${entry.method} ${entry.uri}`} />],
          [words.requestId, <Code text={entry.request_id} />],
          [words.where, entry.client_ip],
          ...(entry.workspace_id === ''
            ? []
            : [[words.workspace, <WithId id={entry.workspace_id}>{workspace}</WithId>] as const]),
          [words.chain, entry.number === 0 ? words.noChain : String(entry.number)],
          ...(entry.hash === '' ? [] : [[words.hash, <Code text={entry.hash} />] as const]),
        ]}
      />
      {bodies.map(
        ([title, text]) =>
          text !== '' &&
          text !== '{}' && (
            <section key={title} className="grid gap-1">
              <h3 className="font-semibold">{title}</h3>
              <CodeBlock text={pretty(text)} />
            </section>
          ),
      )}
    </Dialog>
  );
}

/** What an id stands for, and the id, where there is one. */
function WithId({ id, children }: { readonly id: string; readonly children: ReactNode }) {
  return (
    <span className="flex flex-wrap items-center gap-2">
      {children} {id !== '' && <Code text={id} />}
    </span>
  );
}

function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
