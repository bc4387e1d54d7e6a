import { Type, type Static } from '../../core/pipeline/plugin.ts';
import type { RecordVersion, StoredRecord } from '../../core/ports/records.ts';
import { Instant, orNull } from './text-schema.ts';

const Status = Type.Union([Type.Literal('active'), Type.Literal('archived')]);
/** `active` for the version that is used when none is named. */
const VersionStatus = Type.Union([Type.Literal('active'), Type.Literal('archived')], {
  description: '`active`: it is used when a request names no version.',
});
const AnyObject = Type.Record(Type.String(), Type.Unknown());

/** A prompt with one of its versions. */
export const PromptReply = Type.Object({
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
  created_at: Instant('When it was made.'),
  last_updated_at: Instant('When it was changed last.'),
});

/** A prompt in a list. */
export const PromptEntry = Type.Object({
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
export const PromptVersionEntry = Type.Object({
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

/** The prompt as lists show it. */
export function showEntry(record: StoredRecord<'prompt'>): Static<typeof PromptEntry> {
  return {
    ...{ id: record.id, object: 'prompt', slug: record.slug, name: record.name },
    ...{ collection_id: record.parentId, workspace_id: record.workspaceId ?? '' },
    ...{ model: record.data.model, status: record.status },
    created_at: new Date(record.createdAt).toISOString(),
    last_updated_at: new Date(record.updatedAt).toISOString(),
  };
}

/** The prompt with this version of it. */
export function showPrompt(
  record: StoredRecord<'prompt'>,
  version: RecordVersion<'prompt'>,
): Static<typeof PromptReply> {
  const { data } = version;
  return {
    ...showEntry(record),
    ...{ string: data.template, parameters: { ...data.parameters }, model: data.model },
    ...{ prompt_version: version.number, prompt_version_id: version.id },
    prompt_version_status: statusOf(record, version),
    prompt_version_description: version.description,
    prompt_version_label_id: version.labelId || null,
    ...{ virtual_key: data.virtualKey, functions: [...data.functions], tools: [...data.tools] },
    ...{ tool_choice: data.toolChoice, template_metadata: { ...data.metadata } },
    is_raw_template: data.isRawTemplate,
  };
}

/** The version as the list of versions shows it. */
export function showVersion(
  record: StoredRecord<'prompt'>,
  version: RecordVersion<'prompt'>,
): Static<typeof PromptVersionEntry> {
  const { template, parameters, model } = version.data;
  return {
    ...{ id: version.id, object: 'prompt', prompt_id: record.id, prompt_version: version.number },
    prompt_template: { string: template, parameters: { ...parameters }, model },
    ...{ prompt_description: version.description, label_id: version.labelId || null },
    status: statusOf(record, version),
    created_at: new Date(version.createdAt).toISOString(),
  };
}

/** `active` for the version that is used when none is named. */
export function statusOf(
  { data }: StoredRecord<'prompt' | 'prompt_partial'>,
  { number }: RecordVersion<'prompt' | 'prompt_partial'>,
): 'active' | 'archived' {
  return number === data.defaultVersion ? 'active' : 'archived';
}
