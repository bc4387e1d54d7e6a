import { addressedProvider, callerKey } from '../../core/pipeline/keys.ts';
import {
  definePlugin,
  GatewayError,
  Type,
  type JsonObject,
  type RequestContext,
} from '../../core/pipeline/plugin.ts';
import { findPrompt } from '../../core/administration/prompts/find-prompt.ts';
import { DirectorySource } from '../../core/administration/prompts/prompt-source.ts';
import { renderStoredPrompt } from '../../core/administration/prompts/prompt-template.ts';

/** `/prompts/{promptId}/completions`, not decoded. */
const completions = /^\/prompts\/([^/]+)\/completions$/;

/** Turns a call of a saved prompt into the chat or text completion that the prompt describes. */
export default definePlugin({
  name: 'prompts',
  description:
    'Serves `POST /prompts/{promptId}/completions`: renders the saved prompt with the variables of the request, which then continues as an ordinary request to `/chat/completions` or `/completions`. Plugins after it see the rendered messages, plugins before it the variables.',
  schema: Type.Object({}, { additionalProperties: false }),
  capabilities: { needs: ['key'] },
  create(_, { directory, resources }) {
    const source = new DirectorySource(directory, resources);
    const complete = async (context: RequestContext, given: string): Promise<void> => {
      const key = context.get(callerKey);
      if (key === undefined)
        throw new GatewayError(
          'key_missing',
          'Prompts need a service key. Put the auth plugin before prompts.',
        );
      const { organisationId, workspaceId } = key;
      const place = { organisationId, workspaceId: workspaceId || undefined };
      const prompt = await findPrompt(source, place, readReference(given));
      const { facts } = context;
      facts.prompt = prompt.record.slug;
      facts.promptVersion = String(prompt.version);
      const sent = await bodyOf(context);
      const { path, body } = await renderStoredPrompt(source, prompt, sent);
      const { model } = sent;
      const namesItsOwn = typeof model === 'string' && model.startsWith('@');
      const provider = prompt.data.virtualKey.replace(/^@/, '');
      if (provider !== '' && !namesItsOwn) context.set(addressedProvider, provider);
      context.become(path, body);
    };
    return {
      request(context) {
        if (context.method !== 'POST' || !context.path.startsWith('/prompts/')) return undefined;
        const given = completions.exec(context.path)?.[1];
        return given === undefined ? undefined : complete(context, given);
      },
    };
  },
});

function readReference(given: string): string {
  try {
    return decodeURIComponent(given);
  } catch {
    throw new GatewayError('invalid_request', 'The path holds a broken percent-encoding in the prompt.', {
      param: 'promptId',
    });
  }
}

async function bodyOf({ body }: RequestContext): Promise<JsonObject> {
  await body.load();
  const { json } = body;
  if (typeof json === 'object' && json !== null && !Array.isArray(json)) return json;
  throw new GatewayError(
    'invalid_json',
    'The request body is not a JSON object. Send {"variables": {…}}, and with it the parameters that override those of the prompt.',
  );
}
