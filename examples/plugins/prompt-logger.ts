// Appends each request to a file, a line of JSON each: what was said last, what it cost, how long it took. Lines that the
// disk does not take in time are dropped and counted, so that a slow disk never costs memory.
//
//   - ./prompt-logger.ts: { file: /var/log/prompts.jsonl }
import { createWriteStream } from 'node:fs';
import { finished } from 'node:stream/promises';
import { definePlugin, Type } from 'weir-gateway/plugin';

const mostWaitingBytes = 8 * 1024 * 1024;

export default definePlugin({
  name: 'prompt-logger',
  description: 'Writes prompts to a file.',
  schema: Type.Object(
    {
      file: Type.String({ minLength: 1 }),
      longest: Type.Optional(
        Type.Integer({ minimum: 1, default: 2000, description: 'Characters of each prompt.' }),
      ),
    },
    { additionalProperties: false },
  ),
  capabilities: { reads: ['request.text'] },
  create({ file, longest = 2000 }, scope) {
    const stream = createWriteStream(file, { flags: 'a', mode: 0o600 });
    stream.on('error', (error) =>
      scope.log.error('the file of prompts cannot be written', { file, error: String(error) }),
    );
    const dropped = scope.metrics.counter({
      name: 'prompt_logger_dropped_lines_total',
      help: 'Lines that the file did not take in time.',
      labels: [],
    })({});
    scope.onDispose(async () => {
      stream.end();
      await finished(stream).catch(() => undefined);
    });
    return {
      settled(context, outcome) {
        const prompt = context.endpoint.modelled ? context.conversation.texts.at(-1)?.text : undefined;
        if (prompt === undefined) return;
        if (stream.destroyed || stream.writableLength > mostWaitingBytes) return dropped.inc();
        const { facts } = context;
        const line = {
          id: context.id,
          at: new Date(context.startedAt).toISOString(),
          user: facts.userId,
          model: facts.modelAnswered,
          status: outcome.status,
          ms: Math.round(outcome.latencyMs),
          cost: outcome.price.cost,
          prompt: prompt.slice(0, longest),
        };
        stream.write(`${JSON.stringify(line)}\n`);
      },
    };
  },
});
