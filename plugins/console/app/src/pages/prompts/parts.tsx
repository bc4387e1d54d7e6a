import { useState } from 'react';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { api, dataOf } from '@/api/client';
import type { operations } from '@/api/schema.gen';
import { isOfOrganisation, useSession } from '@/api/session';
import { workspaceFinder, workspaceField } from '@/resource/common-fields';
import { type Finder, type Resource, versioned } from '@/resource/declaration';
import { ResourcePage } from '@/resource/page';
import { prompts as texts } from '@/texts/prompts';
import { Button } from '@/ui/button';
import { Difference } from '@/ui/difference';
import { Badge, Code, Sentence, Time } from '@/ui/small';
import { Loaded } from '@/ui/states';
import { useToast } from '@/ui/toast';

type Ok<O extends keyof operations> = operations[O]['responses'] extends {
  200: { content: { 'application/json': infer T } };
}
  ? T
  : never;
type Body<O extends keyof operations> = operations[O] extends {
  requestBody?: { content: { 'application/json': infer T } };
}
  ? T
  : never;

type Partial_ = Ok<'prompt_partials.get'> | Ok<'prompt_partials.list'>[number];

const ofPartial = (promptPartialId: string) => ({ path: { promptPartialId } });

const partials: Resource<Partial_, Body<'prompt_partials.create'>, Body<'prompt_partials.update'>> = {
  ...{ name: 'partials', noun: texts.partial.noun, title: texts.views.partials },
  ...{ intro: texts.partial.intro, empty: texts.partial.empty, audit: 'prompt_partials' },
  id: ({ id }) => id,
  label: ({ name }) => name,
  words: ({ slug }) => [slug],
  async list({ page, size }) {
    const all = await dataOf(api.GET('/prompts/partials'));
    return { total: all.length, data: all.slice(page * size, (page + 1) * size) };
  },
  get: (id) => versioned(api.GET('/prompts/partials/{promptPartialId}', { params: ofPartial(id) })),
  columns: [
    {
      header: texts.column.name,
      cell: ({ row }) => <span className="font-medium">{row.original.name}</span>,
    },
    { header: texts.partial.include, cell: ({ row }) => <Code text={`{{>${row.original.slug}}}`} /> },
    { header: texts.column.changed, cell: ({ row }) => <Time iso={row.original.last_updated_at} ago /> },
  ],
  create: {
    scopes: ['prompts.create'],
    run: (body) => dataOf(api.POST('/prompts/partials', { body })),
  },
  update: {
    scopes: ['prompts.update'],
    run: (id, body, headers) =>
      dataOf(api.PUT('/prompts/partials/{promptPartialId}', { params: ofPartial(id), body, headers })),
  },
  remove: {
    ...{ scopes: ['prompts.delete'], action: texts.remove, text: texts.partial.removeText },
    run: (id, headers) =>
      dataOf(api.DELETE('/prompts/partials/{promptPartialId}', { params: ofPartial(id), headers })),
  },
  sections: [
    {
      title: texts.partial.text,
      fields: [
        { kind: 'text', path: '/name', label: texts.field.name, required: true },
        workspaceField<Partial_>(),
        {
          ...{ kind: 'long', path: '/string', label: texts.partial.text, help: texts.partial.textHelp },
          required: true,
        },
      ],
    },
  ],
  details: ({ slug }) => (
    <p>
      <Sentence text={texts.partial.includedAs} parts={[<Code text={`{{>${slug}}}`} />]} />
    </p>
  ),
  tabs: [
    {
      ...{ key: 'versions', text: texts.partial.versions, scopes: ['prompts.read'] },
      body: (record) => <PartialVersions partial={record} />,
    },
  ],
};

function PartialVersions({ partial }: { readonly partial: Partial_ }) {
  const { may } = useSession();
  const say = useToast();
  const queries = useQueryClient();
  const [shown, setShown] = useState<string>();
  const params = ofPartial(partial.id);
  const query = useQuery({
    queryKey: ['partials', 'versions', partial.id],
    queryFn: () => dataOf(api.GET('/prompts/partials/{promptPartialId}/versions', { params })),
  });
  const publish = useMutation({
    mutationFn: async (version: number) => {
      await dataOf(api.PUT('/prompts/partials/{promptPartialId}/makeDefault', { params, body: { version } }));
      await queries.invalidateQueries({ queryKey: ['partials'] });
      return version;
    },
    onSuccess: (version) => say({ text: texts.published(version), tone: 'good' }),
    onError: (error) => say({ text: error.message, tone: 'bad' }),
  });
  return (
    <Loaded query={query}>
      {(versions) => {
        const served = versions.find(({ prompt_version_status: status }) => status === 'active');
        return (
          <ul className="grid gap-3">
            {versions.map((one) => (
              <li
                key={one.prompt_partial_version_id}
                className="border-line grid gap-2 rounded-md border p-3"
              >
                <div className="flex flex-wrap items-center gap-2">
                  <span className="font-medium">{texts.version(Number(one.version))}</span>
                  {one === served && <Badge tone="good">{texts.isDefault}</Badge>}
                  <span className="text-soft grow">
                    <Time iso={one.created_at} ago /> {one.description}
                  </span>
                  {one !== served && (
                    <Button
                      aria-expanded={shown === one.version}
                      onClick={() => setShown(shown === one.version ? undefined : one.version)}
                    >
                      {texts.compare}
                    </Button>
                  )}
                  {one !== served && may('prompts.publish') && (
                    <Button busy={publish.isPending} onClick={() => publish.mutate(Number(one.version))}>
                      {Number(one.version) < Number(served?.version) ? texts.rollBack : texts.makeDefault}
                    </Button>
                  )}
                </div>
                {shown === one.version && (
                  <Difference
                    label={texts.compareTitle(Number(served?.version ?? 0), Number(one.version))}
                    before={served?.string ?? ''}
                    after={one.string}
                  />
                )}
              </li>
            ))}
          </ul>
        );
      }}
    </Loaded>
  );
}

export function Partials() {
  return <ResourcePage resource={partials} inner />;
}

type Collection = Ok<'collections.get'> | Ok<'collections.list'>['data'][number];
const ofCollection = (collectionId: string) => ({ path: { collectionId } });

const collectionFinder: Finder = {
  ...{ name: 'collections', scopes: ['prompts.list'], by: 'id' },
  async find(text) {
    const query = { page_size: 20, ...(text !== '' && { search: text }) };
    const { data } = await dataOf(api.GET('/collections', { params: { query } }));
    return data.map(({ id, name, slug }) => ({ value: id, text: name, note: slug }));
  },
};

const collections: Resource<Collection, Body<'collections.create'>, Body<'collections.update'>> = {
  ...{ name: 'collections', noun: texts.collections.noun, title: texts.views.collections },
  ...{ intro: texts.collections.intro, empty: texts.collections.empty, audit: 'collections' },
  ...{ searches: true, inWorkspace: true },
  id: ({ id }) => id,
  label: ({ name }) => name,
  list: ({ page, size, search, workspace }) =>
    dataOf(
      api.GET('/collections', {
        params: {
          query: {
            ...{ current_page: page, page_size: size },
            ...(search !== '' && { search }),
            ...(workspace !== '' && { workspace_id: workspace }),
          },
        },
      }),
    ),
  get: (id) => versioned(api.GET('/collections/{collectionId}', { params: ofCollection(id) })),
  columns: [
    {
      header: texts.column.name,
      cell: ({ row }) => <span className="font-medium">{row.original.name}</span>,
    },
    { header: texts.column.slug, cell: ({ row }) => <Code text={row.original.slug} /> },
    {
      header: texts.collections.prompts,
      cell: ({ row }) =>
        'collection_details' in row.original ? row.original.collection_details.prompts_count : '–',
    },
    { header: texts.column.changed, cell: ({ row }) => <Time iso={row.original.last_updated_at} ago /> },
  ],
  create: { scopes: ['prompts.create'], run: (body) => dataOf(api.POST('/collections', { body })) },
  update: {
    scopes: ['prompts.update'],
    run: (id, body, headers) =>
      dataOf(api.PUT('/collections/{collectionId}', { params: ofCollection(id), body, headers })),
  },
  remove: {
    ...{ scopes: ['prompts.delete'], action: texts.remove, text: texts.collections.removeText },
    run: (id, headers) =>
      dataOf(api.DELETE('/collections/{collectionId}', { params: ofCollection(id), headers })),
  },
  sections: [
    {
      title: texts.collection,
      fields: [
        { kind: 'text', path: '/name', label: texts.field.name, required: true },
        workspaceField<Collection>(),
        {
          ...{ kind: 'reference', path: '/parent_collection_id', label: texts.collections.parent },
          ...{
            only: 'create',
            none: texts.collections.parentNone,
            find: collectionFinder,
          },
        },
      ],
    },
  ],
};

export function Collections() {
  return <ResourcePage resource={collections} inner />;
}

type Label = Ok<'labels.get'>;
const ofLabel = (labelId: string) => ({ path: { labelId } });

const labels: Resource<Label, Body<'labels.create'>, Body<'labels.update'>> = {
  ...{ name: 'labels', noun: texts.labels.noun, title: texts.views.labels },
  ...{ intro: texts.labels.intro, empty: texts.labels.empty, audit: 'labels', searches: true },
  id: ({ id }) => id,
  label: ({ name }) => name,
  list: ({ page, size, search }) =>
    dataOf(
      api.GET('/labels', {
        params: { query: { current_page: page, page_size: size, ...(search !== '' && { search }) } },
      }),
    ),
  get: (id) => versioned(api.GET('/labels/{labelId}', { params: ofLabel(id) })),
  columns: [
    { header: texts.column.name, cell: ({ row }) => <Badge tone="accent">{row.original.name}</Badge> },
    { header: texts.labels.description, accessorKey: 'description' },
    { header: texts.column.changed, cell: ({ row }) => <Time iso={row.original.last_updated_at} ago /> },
  ],
  create: { scopes: ['prompts.create'], run: (body) => dataOf(api.POST('/labels', { body })) },
  update: {
    scopes: ['prompts.update'],
    run: (id, body, headers) => dataOf(api.PUT('/labels/{labelId}', { params: ofLabel(id), body, headers })),
  },
  remove: {
    ...{ scopes: ['prompts.delete'], action: texts.remove, text: texts.labels.removeText },
    run: (id, headers) => dataOf(api.DELETE('/labels/{labelId}', { params: ofLabel(id), headers })),
  },
  sections: [
    {
      title: texts.label,
      fields: [
        { kind: 'text', path: '/name', label: texts.field.name, help: texts.labels.nameHelp, required: true },
        {
          ...{ kind: 'reference', path: '/workspace_id', label: texts.field.workspace, only: 'create' },
          ...{ none: texts.labels.everywhere, find: workspaceFinder },
          shown: ({ caller }) => isOfOrganisation(caller),
        },
        { kind: 'text', path: '/description', label: texts.labels.description },
        { kind: 'text', path: '/color_code', label: texts.labels.color, help: texts.labels.colorHelp },
      ],
    },
  ],
};

export function Labels() {
  return <ResourcePage resource={labels} inner />;
}
