/** Answers of a Messages host for tests. */

const message = { id: 'm', type: 'message', role: 'assistant', model: 'claude-1' };

/** One named event of its streams. */
const event = (type: string, more: object = {}): string =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;

/** A whole message. */
export const messageOf = (text: string): object => ({
  ...message,
  content: [{ type: 'text', text }],
  stop_reason: 'end_turn',
  usage: { input_tokens: 3, output_tokens: 4 },
});

/** The events of a streamed message; the third of them brings its text. */
export const messageEvents = (text: string): readonly string[] => [
  event('message_start', {
    message: { ...message, content: [], usage: { input_tokens: 3, output_tokens: 0 } },
  }),
  event('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }),
  event('content_block_delta', { index: 0, delta: { type: 'text_delta', text } }),
  event('content_block_stop', { index: 0 }),
  event('message_delta', { delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 4 } }),
  event('message_stop'),
];

/** The event with which a host breaks off. */
export const messageError = event('error', {
  error: { type: 'overloaded_error', message: 'we are overloaded' },
});
