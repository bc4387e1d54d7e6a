import { withoutFullStop } from '../../core/errors/full-stop.ts';
import { GatewayError } from '../../core/pipeline/plugin.ts';
import type { RecordPlace } from '../../core/ports/records.ts';
import type { ResourcesReader } from '../../core/ports/resources.ts';
import { includedPartials } from '../../core/administration/prompts/included-partials.ts';
import { storedSource } from '../../core/administration/prompts/prompt-source.ts';
import { compilePrompt } from '../../core/administration/prompts/prompt-template.ts';
import { compileTemplate } from '../../core/administration/prompts/template.ts';
import { TemplateError } from '../../core/administration/prompts/template-error.ts';
import { refusedBody } from './refused-body.ts';

/** A template that is to be saved, or to be served by default. */
export interface TemplateDraft {
  readonly template: string;
  /** The workspace whose partials it may include. */
  readonly place: RecordPlace;
  /** Given for a partial: it must not include itself. */
  readonly partial?: { readonly id: string; readonly slug: string };
  /** Field of the body at fault. Default `/string`. */
  readonly pointer?: string;
}

/**
 * Throws `invalid_request` for a template that cannot be read (with line and column), that includes what is not there, or
 * that includes itself (with the circle).
 */
export async function checkTemplate(
  reader: Pick<ResourcesReader, 'records'>,
  { template, place, partial, pointer = '/string' }: TemplateDraft,
): Promise<void> {
  try {
    const source = storedSource(reader);
    if (partial === undefined) {
      await includedPartials(source, place, compilePrompt(template).partials);
      return;
    }
    const compiled = compileTemplate(template);
    await includedPartials(source, place, compiled.partials, { ...partial, template: compiled });
  } catch (error) {
    if (error instanceof TemplateError)
      throw refusedBody([{ path: pointer, message: `is no template: ${error.message}` }]);
    if (GatewayError.is(error) && error.code === 'invalid_request')
      throw refusedBody([{ path: pointer, message: `is refused: ${withoutFullStop(error.message)}` }]);
    throw error;
  }
}
