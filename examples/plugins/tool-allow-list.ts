// Lets models call listed tools only: others are refused in requests of every API, and an answer that calls one ends.
//
//   - ./tool-allow-list.ts: { tools: [get_weather, search_*] }
import { definePlugin, GatewayError, judged, Type, type JsonValue } from 'weir-gateway/plugin';

/** Names of the tools that a body declares: `tools[].function.name`, `tools[].name`, Gemini's declarations. */
function* namesOf(value: JsonValue | undefined): Generator<string> {
  if (Array.isArray(value)) for (const item of value) yield* namesOf(item);
  else if (typeof value === 'object' && value !== null) {
    const { name, type } = value;
    if (typeof name === 'string') yield name;
    else if (typeof type === 'string' && type !== 'function') yield type;
    yield* namesOf(value['function']);
    yield* namesOf(value['functionDeclarations'] ?? value['function_declarations']);
  }
}

export default definePlugin({
  name: 'tool-allow-list',
  description: 'Lets models call listed tools only.',
  schema: Type.Object(
    {
      tools: Type.Array(Type.String(), { description: 'Names; with a `*` at the end, beginnings of names.' }),
    },
    { additionalProperties: false },
  ),
  capabilities: { reads: ['request.json', 'response.text'], stream: 'window', guardrail: true },
  create({ tools }) {
    const exact = new Set(tools);
    const beginnings = tools.filter((name) => name.endsWith('*')).map((name) => name.slice(0, -1));
    const require = (name: string): void => {
      if (exact.has(name) || beginnings.some((one) => name.startsWith(one))) return;
      throw new GatewayError(
        'hooks_failed',
        `The tool "${name}" is not allowed. Allowed are: ${tools.join(', ')}.`,
      );
    };
    return {
      request(context) {
        const { json } = context;
        if (typeof json !== 'object' || json === null || Array.isArray(json)) return;
        for (const name of namesOf([json['tools'] ?? [], json['functions'] ?? []])) require(name);
        context.set(judged, 'passed');
      },
      response(context) {
        for (const { name } of context.response.texts) if (name !== undefined) require(name);
        context.set(judged, 'passed');
      },
      stream: () => ({
        event(event, emit) {
          if (event.type === 'tool-arguments-delta' && event.name !== undefined) require(event.name);
          emit(event);
        },
      }),
    };
  },
});
