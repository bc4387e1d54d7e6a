import { reachOf } from '../../core/access/access.ts';
import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, Type, type JsonValue, type Scope } from '../../core/pipeline/plugin.ts';
import { findPrompt } from '../../core/administration/prompts/find-prompt.ts';
import { storedSource } from '../../core/administration/prompts/prompt-source.ts';
import { renderStoredPrompt } from '../../core/administration/prompts/render-stored-prompt.ts';
import { requirePrompts } from './prompt-access.ts';
import { orNull } from './text-schema.ts';
import { PromptReferenceParam, visibleTemplate } from './visible-prompt.ts';

/** What some clients repeat of the path. */
const ofThePath = ['promptID', 'prompt_id', 'promptId', 'prompt_i_d'];

/** `POST /prompts/{promptId}/render`: the body that `/completions` would send to the provider. */
export function renderPromptRoute({ directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'prompts.render',
    method: 'POST',
    path: '/prompts/{promptId}/render',
    summary: 'What a prompt comes to with these variables, as the body of a request to a provider',
    scope: 'prompts.render',
    // Reads only.
    audit: null,
    params: Type.Object({ promptId: PromptReferenceParam }),
    body: Type.Object(
      {
        variables: Type.Optional(
          Type.Record(Type.String(), Type.Unknown(), { description: 'Values by the names in the template.' }),
        ),
        strict: Type.Optional(
          orNull(
            Type.Boolean({
              default: false,
              description: 'Refuse when a variable of the template is missing. Else it stands for nothing.',
            }),
          ),
        ),
      },
      {
        additionalProperties: true,
        description: 'Beside the variables: parameters that count instead of those of the prompt.',
      },
    ),
    reply: Type.Object({
      success: Type.Literal(true),
      data: Type.Record(Type.String(), Type.Unknown()),
    }),
    async handle({ params, body, key, role, read }) {
      requirePrompts({ key, role }, directory, 'View');
      // What has been parsed from JSON is JSON.
      const sent = { ...body } as Record<string, JsonValue>;
      for (const name of ofThePath) delete sent[name];
      const { body: data } = await read(async (reader) => {
        const source = storedSource(reader);
        const [idOrSlug = ''] = params.promptId.split('@');
        // Its own workspace, where the key is not bound to one.
        const { organisationId, workspaceId } = await visibleTemplate(reader, key, 'prompt', idOrSlug);
        const place = { organisationId, workspaceId: workspaceId ?? reachOf(key).workspaceId };
        return renderStoredPrompt(source, await findPrompt(source, place, params.promptId), sent);
      });
      return { success: true as const, data };
    },
  });
}
