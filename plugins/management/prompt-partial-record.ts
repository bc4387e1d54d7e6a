import { Type, type Static } from '../../core/pipeline/plugin.ts';
import type { RecordVersion, StoredRecord } from '../../core/ports/records.ts';
import { statusOf } from './prompt-record.ts';

const Status = Type.Union([Type.Literal('active'), Type.Literal('archived')]);

/** A partial in a list. */
export const PartialEntry = Type.Object({
  id: Type.String(),
  object: Type.Literal('partial'),
  slug: Type.String(),
  name: Type.String(),
  collection_id: Type.String(),
  status: Status,
  created_at: Type.String(),
  last_updated_at: Type.String(),
});

/** A partial with one of its versions. */
export const PartialReply = Type.Object({
  ...PartialEntry.properties,
  string: Type.String({ description: 'The template.' }),
  version: Type.Integer(),
  version_description: Type.String(),
  prompt_partial_version_id: Type.String(),
});

/** A version in the list of versions. */
export const PartialVersionEntry = Type.Object({
  object: Type.Literal('partial'),
  prompt_partial_id: Type.String(),
  prompt_partial_version_id: Type.String(),
  slug: Type.String(),
  version: Type.String({ description: 'Its number.' }),
  string: Type.String(),
  description: Type.String(),
  created_at: Type.String(),
  prompt_version_status: Status,
});

type Partial = StoredRecord<'prompt_partial'>;
type Version = RecordVersion<'prompt_partial'>;

/** The partial as lists show it. */
export function showPartialEntry(record: Partial): Static<typeof PartialEntry> {
  return {
    ...{ id: record.id, object: 'partial', slug: record.slug, name: record.name },
    ...{ collection_id: record.parentId, status: record.status },
    created_at: new Date(record.createdAt).toISOString(),
    last_updated_at: new Date(record.updatedAt).toISOString(),
  };
}

/** The partial with this version of it. */
export function showPartial(record: Partial, version: Version): Static<typeof PartialReply> {
  return {
    ...showPartialEntry(record),
    ...{ string: version.data.template, version: version.number },
    ...{ version_description: version.description, prompt_partial_version_id: version.id },
  };
}

/** The version as the list of versions shows it; its number is a text there, as existing clients read it. */
export function showPartialVersion(record: Partial, version: Version): Static<typeof PartialVersionEntry> {
  return {
    ...{ object: 'partial', prompt_partial_id: record.id, prompt_partial_version_id: version.id },
    ...{ slug: record.slug, version: String(version.number), string: version.data.template },
    ...{ description: version.description, created_at: new Date(version.createdAt).toISOString() },
    prompt_version_status: statusOf(record, version),
  };
}
