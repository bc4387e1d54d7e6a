import { GatewayError } from '../../core/pipeline/plugin.ts';
import type { RecordKind, RecordVersion, StoredRecord } from '../../core/ports/records.ts';
import type { ResourcesReader } from '../../core/ports/resources.ts';
import { compilePrompt } from '../../core/administration/prompts/prompt-template.ts';
import { readReference } from '../../core/administration/prompts/prompt-reference.ts';
import { compileTemplate } from '../../core/administration/prompts/template.ts';
import type { TemplateKind } from '../../core/administration/prompts/prompt-source.ts';
import { eachRecord } from './visible-record.ts';

const maxNamed = 10;
const pageSize = 100;

type Reader = Pick<ResourcesReader, 'records'>;

/** Whether a version of a prompt or of a partial uses something. */
type Uses = (version: Pick<RecordVersion<TemplateKind>, 'data' | 'labelId'>, kind: TemplateKind) => boolean;

/**
 * Throws `resource_conflict`, naming up to 10 of them, when prompts or partials include the partial: in their default
 * version, their latest one, or one that has a label. Older versions do not hold it back.
 */
export async function requireUnusedPartial(
  reader: Reader,
  partial: StoredRecord<'prompt_partial'>,
): Promise<void> {
  const names = ({ data }: { readonly data: { readonly template: string } }, kind: TemplateKind): boolean => {
    const { partials } = kind === 'prompt' ? compilePrompt(data.template) : compileTemplate(data.template);
    return partials.some((name) => {
      const named = readReference(name)?.idOrSlug;
      return named === partial.id || named === partial.slug;
    });
  };
  await requireUnused(reader, partial, names);
}

/** Throws `resource_conflict`, naming up to 10 of them, when versions of prompts or of partials have the label. */
export async function requireUnusedLabel(reader: Reader, label: StoredRecord<'label'>): Promise<void> {
  await requireUnused(reader, label, ({ labelId }) => labelId === label.id);
}

async function requireUnused(
  reader: Reader,
  used: StoredRecord<'label' | 'prompt_partial'>,
  uses: Uses,
): Promise<void> {
  const { organisationId, workspaceId } = used;
  const filter = { status: 'active' as const, ...(workspaceId !== undefined && { workspaceId }) };
  const users: string[] = [];
  for (const kind of ['prompt', 'prompt_partial'] as const) {
    for await (const record of eachRecord(reader, kind, organisationId, filter)) {
      if (users.length === maxNamed) break;
      if (record.id !== used.id && (await isUser(reader, record, uses)))
        users.push(`${nounOf(kind)} "${record.slug}"`);
    }
  }
  if (users.length === 0) return;
  throw new GatewayError(
    'resource_conflict',
    `The ${nounOf(used.kind)} "${used.name}" is in use by ${users.join(', ')}. Change them first.`,
  );
}

function nounOf(kind: RecordKind): string {
  return kind === 'prompt_partial' ? 'partial' : kind;
}

async function isUser({ records }: Reader, record: StoredRecord<TemplateKind>, uses: Uses): Promise<boolean> {
  const { kind, organisationId, id } = record;
  if (uses({ data: record.data, labelId: '' }, kind)) return true;
  for (let offset = 0; ; offset += pageSize) {
    const { data } = await records.versions(kind, organisationId, id, { offset, limit: pageSize });
    const served = data.filter((one, index) => (offset === 0 && index === 0) || one.labelId !== '');
    if (served.some((one) => uses(one, kind))) return true;
    if (data.length < pageSize) return false;
  }
}
