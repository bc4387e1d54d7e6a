import { asObject, type JsonObject, objectsOf } from '../../../adapters/dialects/json-reading.ts';
import { pathOf, sseFrame, type FakeWire, type SeenRequest } from './fake-wire.ts';
import { isBase64, Violations } from './violations.ts';

const known = new Set(
  (
    'contents systemInstruction system_instruction tools toolConfig tool_config generationConfig generation_config ' +
    'safetySettings safety_settings cachedContent cached_content labels serviceTier store'
  ).split(' '),
);
const path = /^\/v1beta\/models\/([^/:]+):(generateContent|streamGenerateContent)$/;
const statusNames: Readonly<Record<number, string>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  429: 'RESOURCE_EXHAUSTED',
  500: 'INTERNAL',
  529: 'UNAVAILABLE',
};

/** `POST /v1beta/models/{model}:generateContent` and `:streamGenerateContent?alt=sse` as Google serves them. */
export const fakeGoogleGemini: FakeWire = {
  dialect: 'google-gemini',
  asked(request) {
    const [, model, verb] = path.exec(pathOf(request)) ?? [];
    return model === undefined ? undefined : { model, stream: verb === 'streamGenerateContent' };
  },
  violations,
  streamType: 'text/event-stream',
  // Google ends its lines with CR LF.
  frame: (event) => Buffer.from(`data: ${JSON.stringify(event)}\r\n\r\n`),
  isEndSign: (event) => objectsOf(event.candidates)[0]?.finishReason !== undefined,
  errorBody: (status, message) => ({
    error: { code: status, message, status: statusNames[status] ?? 'UNKNOWN' },
  }),
  errorFrame: (message) => sseFrame(JSON.stringify({ error: { code: 503, message, status: 'UNAVAILABLE' } })),
};

function violations({ body, headers, url }: SeenRequest): readonly string[] {
  const rules = new Violations();
  rules.expect(headers['x-goog-api-key'] !== undefined || /[?&]key=/.test(url), 'no API key');
  rules.only(body, known, 'body');
  rules.expect(
    !url.includes(':streamGenerateContent') || /[?&]alt=sse\b/.test(url),
    'a stream is asked for without alt=sse: it comes as a JSON array',
  );
  const contents = objectsOf(body.contents);
  rules.expect(contents.length > 0, 'contents: empty');
  rules.expect(contents[0]?.role !== 'model', 'contents: the first is the user’s');
  let calls: readonly string[] = [];
  for (const [at, content] of contents.entries()) {
    calls = checkContent(rules, content, `contents[${at}]`, calls);
  }
  rules.expect(calls.length === 0, `function calls without a response: ${calls.join(', ')}`);
  for (const tool of objectsOf(body.tools)) {
    for (const declaration of objectsOf(tool.functionDeclarations)) checkDeclaration(rules, declaration);
  }
  return rules.found;
}

/** Returns the names of the calls that wait for responses after this content. */
function checkContent(
  rules: Violations,
  content: JsonObject,
  where: string,
  calls: readonly string[],
): readonly string[] {
  rules.expect(
    content.role === 'user' || content.role === 'model' || content.role === undefined,
    `${where}: role "${String(content.role)}"`,
  );
  const parts = objectsOf(content.parts);
  rules.expect(parts.length > 0, `${where}: no parts`);
  const names = (member: string): string[] =>
    parts.flatMap((part) => {
      const value = asObject(part[member]);
      return value === undefined ? [] : [String(value.name)];
    });
  const responses = names('functionResponse');
  rules.expect(
    calls.join() === responses.join(),
    `${where}: responses [${responses.join()}] to the calls [${calls.join()}]`,
  );
  for (const part of parts) {
    const inline = asObject(part.inlineData) ?? asObject(part.inline_data);
    if (inline === undefined) continue;
    rules.expect(isBase64(inline.data), `${where}: inlineData is no base64`);
    rules.expect(
      typeof inline.mimeType === 'string' || typeof inline.mime_type === 'string',
      `${where}: inlineData without mimeType`,
    );
  }
  return names('functionCall');
}

/** `parameters` is a subset of OpenAPI: what it does not know is refused. `parametersJsonSchema` takes everything. */
function checkDeclaration(rules: Violations, declaration: JsonObject): void {
  const text = JSON.stringify(declaration.parameters ?? {});
  for (const keyword of ['additionalProperties', '$schema', '$ref', '$defs', 'const']) {
    rules.expect(!text.includes(`"${keyword}":`), `tools: ${keyword} in ${String(declaration.name)}`);
  }
}
