import { definePlugin, GatewayError, Type } from 'weir-gateway/plugin';

export default definePlugin({
  name: 'deny-words',
  description: 'Refuses prompts that mention one of the listed words.',
  schema: Type.Object({
    words: Type.Array(Type.String({ minLength: 1 }), { minItems: 1, description: 'Compared without case.' }),
  }),
  capabilities: { reads: ['request.text'] },
  create({ words }, scope) {
    const denied = words.map((word) => word.toLowerCase());
    return {
      request(context) {
        for (const { text } of context.conversation.texts) {
          const word = denied.find((one) => text.toLowerCase().includes(one));
          if (word === undefined) continue;
          scope.log.info('refused a prompt', { request: context.id, word });
          throw new GatewayError('hooks_failed', `The prompt mentions "${word}".`);
        }
      },
    };
  },
});
