import { useIsMutating, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { RefreshCw } from 'lucide-react';
import { api, dataOf } from '@/api/client';
import type { operations } from '@/api/schema.gen';
import { useSession } from '@/api/session';
import { useAddressTexts } from '@/lib/address';
import { list } from '@/lib/format';
import { versioned } from '@/resource/declaration';
import { mcp as texts } from '@/texts/mcp';
import { Button } from '@/ui/button';
import { Difference } from '@/ui/difference';
import { Select, Switch } from '@/ui/fields';
import { Badge, Sentence, Time } from '@/ui/small';
import { Empty, Loaded } from '@/ui/states';
import { useToast } from '@/ui/toast';

type Listed<O extends 'mcp_integration_capabilities.list' | 'mcp_server_capabilities.list'> =
  operations[O]['responses'][200]['content']['application/json']['data'][number];
type Capability = Omit<Listed<'mcp_integration_capabilities.list'>, 'created_at' | 'last_updated_at'> &
  Partial<Pick<Listed<'mcp_server_capabilities.list'>, 'integration_enabled'>>;

const askKey = ['mcp', 'ask'];

interface CapabilitiesProps {
  readonly of: 'integration' | 'server';
  readonly id: string;
  /** Any of them lets the caller change what is on. */
  readonly scopes: readonly string[];
}

/** What a server offers: on and off, schemas, and changes of the server that wait to be accepted. */
export function Capabilities({ of, id, scopes }: CapabilitiesProps) {
  const { may } = useSession();
  const queries = useQueryClient();
  const say = useToast();
  const [address, change] = useAddressTexts();
  const type = (address['kind'] ?? 'tool') as Capability['type'];
  const mayChange = may(...scopes);
  const key = ['mcp', 'capabilities', of, id];
  const query = useQuery({
    queryKey: [...key, type],
    queryFn: async (): Promise<{ version: string | undefined; data: readonly Capability[] }> => {
      const query = { type, page_size: 500 };
      const { record, version } = await (of === 'integration'
        ? versioned(
            api.GET('/mcp-integrations/{mcpIntegrationId}/capabilities', {
              params: { path: { mcpIntegrationId: id }, query },
            }),
          )
        : versioned(
            api.GET('/mcp-servers/{mcpServerId}/capabilities', {
              params: { path: { mcpServerId: id }, query },
            }),
          ));
      return { version, data: record.data };
    },
  });
  const save = useMutation({
    mutationFn: async (one: {
      readonly name: string;
      readonly enabled: boolean;
      readonly accept?: boolean;
    }) => {
      const version = query.data?.version;
      const headers = version === undefined ? {} : { 'if-match': version };
      const body = { capabilities: [{ ...one, type }] };
      if (of === 'integration') {
        const params = { path: { mcpIntegrationId: id } };
        await api.PUT('/mcp-integrations/{mcpIntegrationId}/capabilities', { params, body, headers });
      } else {
        const params = { path: { mcpServerId: id } };
        await api.PUT('/mcp-servers/{mcpServerId}/capabilities', { params, body, headers });
      }
    },
    onSuccess: (_, { accept }) =>
      say({ text: accept ? texts.capabilities.accepted : texts.capabilities.saved, tone: 'good' }),
    onError: (error) => say({ text: error.message, tone: 'bad' }),
    onSettled: () => queries.invalidateQueries({ queryKey: key }),
  });
  // An answer of the server changes the record: a change beside it would meet another version.
  const isAsking = useIsMutating({ mutationKey: askKey }) > 0;
  return (
    <div className="grid gap-3">
      <Select
        className="w-auto justify-self-start"
        aria-label={texts.capabilities.kind}
        value={type}
        options={Object.entries(texts.capabilities.kinds)}
        onChange={({ target }) => change({ kind: target.value === 'tool' ? undefined : target.value })}
      />
      <Loaded query={query}>
        {({ data }) => {
          if (data.length === 0) return <Empty title={texts.capabilities.none} />;
          const held = data.filter(({ status }) => status === 'changed').length;
          return (
            <>
              {held > 0 && (
                <p className="bg-warn-wash text-warn rounded-md p-3 font-medium">
                  {texts.capabilities.heldCount(held)}
                </p>
              )}
              <ul className="grid gap-2">
                {data.map((one) => (
                  <OneCapability
                    key={`${one.type} ${one.name}`}
                    one={one}
                    disabled={!mayChange || save.isPending || isAsking}
                    onSwitch={(enabled) => save.mutateAsync({ name: one.name, enabled })}
                    onAccept={
                      of === 'integration' && mayChange
                        ? () => save.mutate({ name: one.name, enabled: one.enabled, accept: true })
                        : undefined
                    }
                  />
                ))}
              </ul>
            </>
          );
        }}
      </Loaded>
    </div>
  );
}

interface OneCapabilityProps {
  readonly one: Capability;
  readonly disabled: boolean;
  readonly onSwitch: (enabled: boolean) => Promise<unknown>;
  readonly onAccept: (() => void) | undefined;
}

function OneCapability({ one, disabled, onSwitch, onAccept }: OneCapabilityProps) {
  const isOff = one.integration_enabled === false;
  const place = one.uri ?? one.uri_template;
  return (
    <li className="border-line grid gap-2 rounded-md border p-3">
      <div className="flex flex-wrap items-center gap-2">
        <span className="font-mono text-xs font-semibold break-all">{one.name}</span>
        {one.title !== null && one.title !== one.name && <span className="text-soft">{one.title}</span>}
        {one.status === 'changed' && <Badge tone="warn">{texts.capabilities.held}</Badge>}
        <span className="grow" />
        <Switch
          label={texts.capabilities.onShort}
          aria-label={texts.capabilities.on(one.name)}
          disabled={disabled || isOff}
          checked={one.enabled && !isOff}
          onSwitch={onSwitch}
        />
      </div>
      {one.description !== null && (
        <p className="text-soft break-words whitespace-pre-wrap">{one.description}</p>
      )}
      {place !== undefined && <p className="text-soft font-mono text-xs break-all">{place}</p>}
      {isOff && <p className="text-soft text-xs">{texts.capabilities.offInIntegration}</p>}
      {one.input_schema !== undefined && <Arguments schema={one.input_schema} />}
      {one.pending !== undefined && (
        <div className="border-line grid gap-2 border-t pt-2">
          <p>{texts.capabilities.heldText}</p>
          <Difference
            label={texts.capabilities.heldTitle(one.name)}
            before={described(one)}
            after={described(one.pending)}
          />
          {onAccept && (
            <div>
              <Button kind="primary" disabled={disabled} onClick={onAccept}>
                {texts.capabilities.accept}
              </Button>
            </div>
          )}
        </div>
      )}
    </li>
  );
}

function described(one: Pick<Capability, 'title' | 'description' | 'input_schema' | 'annotations'>): string {
  const rest = { arguments: one.input_schema, hints: one.annotations };
  return [one.title ?? '', one.description ?? '', JSON.stringify(rest, null, 2)].join('\n');
}

interface Property {
  readonly type?: unknown;
  readonly description?: unknown;
  readonly enum?: readonly unknown[];
}

/** The arguments of a tool, in words. */
function Arguments({ schema }: { readonly schema: Readonly<Record<string, unknown>> }) {
  const { properties, required } = schema;
  const isThere = typeof properties === 'object' && properties !== null;
  const all = Object.entries(isThere ? (properties as Readonly<Record<string, Property>>) : {});
  const needed = Array.isArray(required) ? required : [];
  return (
    <details>
      <summary className="cursor-pointer font-medium">{texts.capabilities.schema(all.length)}</summary>
      {all.length === 0 && <p className="text-soft pt-1">{texts.capabilities.noArguments}</p>}
      <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-1 pt-2">
        {all.map(([name, { type, description, enum: values }]) => (
          <div key={name} className="contents">
            <dt className="font-mono text-xs">
              {name}
              {needed.includes(name) && <span className="text-soft"> ({texts.capabilities.required})</span>}
            </dt>
            <dd className="min-w-0 break-words">
              <span className="text-soft">
                {[type].flat().filter(Boolean).join(' | ')}
                {Array.isArray(values) && ` (${list(values.map(String))})`}
              </span>{' '}
              {typeof description === 'string' && description}
            </dd>
          </div>
        ))}
      </dl>
    </details>
  );
}

/** A button that asks a server what it offers, and what was found when it was asked last. */
export function Asked({ id }: { readonly id: string }) {
  const queries = useQueryClient();
  const say = useToast();
  const key = ['mcp', 'metadata', id];
  const read = (refresh: boolean) =>
    dataOf(
      api.GET('/mcp-integrations/{mcpIntegrationId}/metadata', {
        params: { path: { mcpIntegrationId: id }, query: refresh ? { refresh } : {} },
      }),
    );
  const query = useQuery({
    queryKey: key,
    queryFn: async () => {
      // The first one asks the server, and a later one may: what it offers is read again then.
      const found = await read(false);
      void queries.invalidateQueries({ queryKey: ['mcp', 'capabilities'] });
      return found;
    },
  });
  const ask = useMutation({
    mutationKey: askKey,
    mutationFn: () => read(true),
    onSuccess: async (found) => {
      queries.setQueryData(key, found);
      await queries.invalidateQueries({ queryKey: ['mcp', 'capabilities'] });
      if (found.sync_status === 'synced')
        say({ text: texts.ask.done(found.counts.tools.total), tone: 'good' });
    },
    onError: (error) => say({ text: error.message, tone: 'bad' }),
  });
  return (
    <Loaded query={query} lines={1}>
      {(found) => (
        <div className="grid gap-2">
          <div className="flex flex-wrap items-center gap-3">
            <Button busy={ask.isPending} onClick={() => ask.mutate()}>
              <RefreshCw className="size-4" />
              {texts.ask.button}
            </Button>
            <span className="text-soft">
              {found.last_synced_at === null ? (
                texts.ask.never
              ) : (
                <Sentence
                  text={(when) =>
                    texts.ask.synced(
                      when,
                      `${found.server_name ?? '–'} ${found.server_version ?? ''}`.trim(),
                      found.protocol_version ?? '–',
                    )
                  }
                  parts={[<Time iso={found.last_synced_at} ago />]}
                />
              )}
            </span>
          </div>
          {found.sync_error !== null && (
            <p role="alert" className="bg-bad-wash text-bad rounded-md p-3 break-words">
              {texts.ask.failed(found.sync_error)}
            </p>
          )}
        </div>
      )}
    </Loaded>
  );
}
