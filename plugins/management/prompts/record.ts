import { type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { RecordVersion, StoredRecord } from '../../../core/ports/records.ts';
import { Description, Instant, Name, orNull, plainValue, refusedBody, strict } from '../shared/fields.ts';
import type { PromptData } from '../../../core/ports/record-kinds.ts';
import { maxTemplateLength } from '../../../core/administration/prompts/template.ts';

/** Changes and shows the record of a prompt. */
export const promptRecord = {
  makesVersion,
  version: versionOf,
  showEntry,
  show: showPrompt,
  showVersion,
  status: statusOf,
};

const JsonObject = (description: string) => Type.Record(Type.String(), Type.Unknown(), { description });
const Functions = (description: string) =>
  Type.Array(JsonObject('As the provider wants it.'), { maxItems: 128, description });

/** The text of a template in a body. */
const TemplateText = (description: string) =>
  Type.String({ minLength: 1, maxLength: maxTemplateLength, description });

const Metadata = JsonObject(
  'For people and tools. `"type": "completion"` sends plain text to `/completions`.',
);

const version = {
  string: TemplateText('Mustache: a JSON list of messages, or plain text.'),
  parameters: JsonObject('Parameters in the body of each request: `temperature`, `max_tokens` …'),
  model: Type.String({ maxLength: 255, description: 'Name of the model at the provider.' }),
  virtual_key: Type.String({ maxLength: 255, description: 'Slug of the provider for the rendered prompt.' }),
  version_description: Description,
  functions: Functions('Functions that the model may call.'),
  tools: Functions('Tools that the model may call.'),
  tool_choice: Type.Union([Type.String({ maxLength: 64 }), JsonObject('Choice of the tool to call.')]),
  is_raw_template: Type.Union([Type.Literal(0), Type.Literal(1), Type.Boolean()], {
    description: 'View of the template in an editor; without effect on rendering.',
  }),
  template_metadata: Metadata,
  prompt_metadata: Metadata,
};
const { string, parameters } = version;
const optional = {
  model: Type.Optional(version.model),
  virtual_key: Type.Optional(version.virtual_key),
  version_description: Type.Optional(version.version_description),
  functions: Type.Optional(version.functions),
  tools: Type.Optional(version.tools),
  tool_choice: Type.Optional(version.tool_choice),
  is_raw_template: Type.Optional(version.is_raw_template),
  template_metadata: Type.Optional(version.template_metadata),
  prompt_metadata: Type.Optional(version.prompt_metadata),
};
const collection = Type.Optional(
  Name('Id or slug of a collection; `default` for the one that every workspace has.'),
);

/** Body that creates a prompt. */
const CreatePrompt = Type.Object(
  {
    name: Name('For people.'),
    workspace_id: Type.Optional(Name('Id or slug; keys of the organisation say it here.')),
    collection_id: collection,
    string,
    parameters,
    ...optional,
  },
  strict,
);

/** Body that changes a prompt; any field of a version adds a new version. */
const UpdatePrompt = Type.Object(
  {
    patch: Type.Optional(
      Type.Boolean({
        description:
          'Take omitted fields from the latest version. Default false: they are empty, and `string` is required.',
      }),
    ),
    name: Type.Optional(Name('For people.')),
    collection_id: collection,
    string: Type.Optional(string),
    parameters: Type.Optional(parameters),
    ...optional,
  },
  strict,
);

type Body = Static<typeof UpdatePrompt>;

const versionFields = Object.keys(version) as readonly (keyof typeof version)[];

/** True when a body has a field of a version. */
function makesVersion(body: Body): boolean {
  return versionFields.some((name) => body[name] !== undefined);
}

/**
 * The version from a body; absent fields are those of `before`. Throws `invalid_request` for metadata in both
 * spellings, and for whole numbers beyond 2^53.
 */
function versionOf(body: Body, before: PromptData): PromptData {
  if (body.template_metadata !== undefined && body.prompt_metadata !== undefined)
    throw refusedBody([{ path: '/prompt_metadata', message: 'is given as template_metadata, too' }]);
  const stored = (member: keyof Body): unknown =>
    body[member] === undefined ? undefined : plainValue(body[member], `/${member}`);
  const given = {
    parameters: stored('parameters'),
    functions: stored('functions'),
    tools: stored('tools'),
    toolChoice: stored('tool_choice'),
    metadata: stored('template_metadata') ?? stored('prompt_metadata'),
  } as Partial<Pick<PromptData, 'parameters' | 'functions' | 'tools' | 'toolChoice' | 'metadata'>>;
  return {
    template: body.string ?? before.template,
    parameters: given.parameters ?? before.parameters,
    virtualKey: body.virtual_key ?? before.virtualKey,
    model: body.model ?? before.model,
    functions: given.functions ?? before.functions,
    tools: given.tools ?? before.tools,
    toolChoice: given.toolChoice ?? before.toolChoice,
    metadata: given.metadata ?? before.metadata,
    isRawTemplate: body.is_raw_template === undefined ? before.isRawTemplate : Boolean(body.is_raw_template),
    defaultVersion: before.defaultVersion,
  };
}

const Status = Type.Union([Type.Literal('active'), Type.Literal('archived')]);
/** `active` for the default version, used by requests that name none. */
const VersionStatus = Type.Union([Type.Literal('active'), Type.Literal('archived')], {
  description: '`active`: the version for requests that name none.',
});
const AnyObject = Type.Record(Type.String(), Type.Unknown());

/** A prompt with one of its versions. */
const PromptReply = Type.Object({
  id: Type.String(),
  object: Type.Literal('prompt'),
  slug: Type.String(),
  name: Type.String(),
  collection_id: Type.String(),
  workspace_id: Type.String(),
  string: Type.String({ description: 'The template.' }),
  parameters: AnyObject,
  prompt_version: Type.Integer(),
  prompt_version_id: Type.String(),
  prompt_version_status: VersionStatus,
  prompt_version_description: Type.String(),
  prompt_version_label_id: orNull(Type.String()),
  virtual_key: Type.String(),
  model: Type.String(),
  functions: Type.Array(AnyObject),
  tools: Type.Array(AnyObject),
  tool_choice: Type.Unknown(),
  template_metadata: AnyObject,
  is_raw_template: Type.Boolean(),
  status: Status,
  created_at: Instant('Time of creation.'),
  last_updated_at: Instant('Time of the last change.'),
});

/** A prompt in a list. */
const PromptEntry = Type.Object({
  id: Type.String(),
  object: Type.Literal('prompt'),
  slug: Type.String(),
  name: Type.String(),
  collection_id: Type.String(),
  workspace_id: Type.String(),
  model: Type.String(),
  status: Status,
  created_at: Type.String(),
  last_updated_at: Type.String(),
});

/** A version in the list of versions. */
const PromptVersionEntry = Type.Object({
  id: Type.String(),
  object: Type.Literal('prompt'),
  prompt_id: Type.String(),
  prompt_template: Type.Object({ string: Type.String(), parameters: AnyObject, model: Type.String() }),
  prompt_version: Type.Integer(),
  prompt_description: Type.String(),
  label_id: orNull(Type.String()),
  status: VersionStatus,
  created_at: Type.String(),
});

/** Bodies and replies of prompts. */
export const promptSchemas = {
  TemplateText,
  CreatePrompt,
  UpdatePrompt,
  Status,
  PromptReply,
  PromptEntry,
  PromptVersionEntry,
};

/** Converts a prompt to its shape in lists. */
function showEntry(record: StoredRecord<'prompt'>): Static<typeof PromptEntry> {
  return {
    id: record.id,
    object: 'prompt',
    slug: record.slug,
    name: record.name,
    collection_id: record.parentId,
    workspace_id: record.workspaceId ?? '',
    model: record.data.model,
    status: record.status,
    created_at: new Date(record.createdAt).toISOString(),
    last_updated_at: new Date(record.updatedAt).toISOString(),
  };
}

/** Converts a prompt with one of its versions to the API's shape. */
function showPrompt(
  record: StoredRecord<'prompt'>,
  version: RecordVersion<'prompt'>,
): Static<typeof PromptReply> {
  const { data } = version;
  return {
    ...showEntry(record),
    string: data.template,
    parameters: { ...data.parameters },
    model: data.model,
    prompt_version: version.number,
    prompt_version_id: version.id,
    prompt_version_status: statusOf(record, version),
    prompt_version_description: version.description,
    prompt_version_label_id: version.labelId || null,
    virtual_key: data.virtualKey,
    functions: [...data.functions],
    tools: [...data.tools],
    tool_choice: data.toolChoice,
    template_metadata: { ...data.metadata },
    is_raw_template: data.isRawTemplate,
  };
}

/** Converts a version to its shape in the list of versions. */
function showVersion(
  record: StoredRecord<'prompt'>,
  version: RecordVersion<'prompt'>,
): Static<typeof PromptVersionEntry> {
  const { template, parameters, model } = version.data;
  return {
    id: version.id,
    object: 'prompt',
    prompt_id: record.id,
    prompt_version: version.number,
    prompt_template: { string: template, parameters: { ...parameters }, model },
    prompt_description: version.description,
    label_id: version.labelId || null,
    status: statusOf(record, version),
    created_at: new Date(version.createdAt).toISOString(),
  };
}

/** `active` for the default version, used by requests that name none. */
function statusOf(
  { data }: StoredRecord<'prompt' | 'prompt_partial'>,
  { number }: RecordVersion<'prompt' | 'prompt_partial'>,
): 'active' | 'archived' {
  return number === data.defaultVersion ? 'active' : 'archived';
}
