import { definePlugin, judged, type RequestContext } from '../../core/pipeline/plugin.ts';
import { AddPrefixSchema } from './options.ts';
import { Prefixer } from './prefixer.ts';

/** Puts a text in front of what the caller sends. */
export default definePlugin({
  name: 'add-prefix',
  description:
    'Puts a text in front of the last message of a role, on chat completions, completions, responses and messages. Everything else of the body stays as it was sent.',
  schema: AddPrefixSchema,
  // No `changes`: that would hold the uploads of other endpoints in memory. What can be edited is loaded below.
  checks: ['default.addPrefix'],
  capabilities: { guardrail: true },
  create({ prefix, applyToRole = 'user', addToExisting = true, onlyIfEmpty = false }) {
    const prefixer = new Prefixer({ prefix, applyToRole, addToExisting, onlyIfEmpty });
    const apply = (context: RequestContext): void => {
      const before = context.body.changed;
      prefixer.apply(context);
      // Where another plugin had changed it already, nothing tells whether this one did.
      if (!before) context.set(judged, context.body.changed ? 'changed' : 'skipped');
    };
    return {
      request(context) {
        const { body } = context;
        if (!body.present || !prefixer.knows(context.endpoint.id)) {
          context.set(judged, 'skipped');
          return undefined;
        }
        if (body.loaded) return apply(context);
        return body.load().then(() => apply(context));
      },
    };
  },
});
