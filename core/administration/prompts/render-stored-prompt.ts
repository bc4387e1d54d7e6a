import { GatewayError } from '../../errors/gateway-error.ts';
import type { JsonObject, JsonValue } from '../../pipeline/context.ts';
import type { PromptData } from '../../ports/record-kinds.ts';
import type { FoundPrompt } from './find-prompt.ts';
import { includedPartials } from './included-partials.ts';
import { promptRequest, type PromptRequest } from './prompt-request.ts';
import type { PromptSource } from './prompt-source.ts';
import { compilePrompt, renderPrompt, type PromptTemplate } from './prompt-template.ts';
import { Rendering } from './rendering.ts';

/** Templates by the version that they are of: those of the directory live as long as they are there. */
const compiled = new WeakMap<PromptData, PromptTemplate>();

/**
 * The request that a version of a prompt makes with what a caller sent: `variables`, and whatever is to count instead of
 * the version's own parameters. A variable that is not there stands for nothing; with `strict: true` beside them, it throws
 * `invalid_request` with the names of those that are missing, as it does for what keeps the request from being made.
 */
export async function renderStoredPrompt(
  source: PromptSource,
  { record, data }: FoundPrompt,
  sent: Readonly<Record<string, JsonValue>>,
): Promise<PromptRequest> {
  const { organisationId, workspaceId } = record;
  let prompt = compiled.get(data);
  if (prompt === undefined) compiled.set(data, (prompt = compilePrompt(data.template)));
  const partials = await includedPartials(source, { organisationId, workspaceId }, prompt.partials);
  const rendering = new Rendering(variablesOf(sent), partials);
  const rendered = renderPrompt(prompt, rendering);
  if (isStrict(sent)) rendering.requireComplete();
  return promptRequest(data, rendered, sent);
}

function isStrict({ strict }: Readonly<Record<string, JsonValue>>): boolean {
  if (strict === undefined || strict === null || typeof strict === 'boolean') return strict === true;
  throw new GatewayError('invalid_request', '"strict" is neither true nor false.', { param: 'strict' });
}

function variablesOf({ variables }: Readonly<Record<string, JsonValue>>): JsonObject {
  if (variables === undefined || variables === null) return {};
  if (typeof variables === 'object' && !Array.isArray(variables)) return variables;
  throw new GatewayError('invalid_request', '"variables" is no object of values by their name.', {
    param: 'variables',
  });
}
