import { definePlugin } from '../../core/pipeline/plugin.ts';
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
    return {
      request(context) {
        if (!context.body.present || !prefixer.knows(context.endpoint.id)) return undefined;
        if (context.body.loaded) return prefixer.apply(context);
        return context.body.load().then(() => prefixer.apply(context));
      },
    };
  },
});
