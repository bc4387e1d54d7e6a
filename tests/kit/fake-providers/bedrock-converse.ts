import { writeAwsEventStreamMessage } from '../../../adapters/framing/write-aws-event-stream.test-support.ts';
import { asObject, type JsonObject, objectsOf } from '../../../adapters/dialects/json-reading.ts';
import { pathOf, type FakeWire, type SeenRequest } from './fake-wire.ts';
import { isBase64, Violations } from './violations.ts';

const known = new Set(
  (
    'messages system inferenceConfig toolConfig guardrailConfig additionalModelRequestFields ' +
    'additionalModelResponseFieldPaths requestMetadata performanceConfig promptVariables outputConfig serviceTier'
  ).split(' '),
);
const path = /^\/model\/([^/]+)\/(converse|converse-stream)$/;
const exceptions: Readonly<Record<number, string>> = {
  400: 'ValidationException',
  401: 'UnrecognizedClientException',
  429: 'ThrottlingException',
  500: 'InternalServerException',
  529: 'ServiceUnavailableException',
};
const authorization =
  /^AWS4-HMAC-SHA256 Credential=AKIAGRID\/\d{8}\/eu-central-1\/bedrock\/aws4_request, ?SignedHeaders=([a-z0-9;-]+), ?Signature=[0-9a-f]{64}$/;

/** `POST /model/{id}/converse` and `/converse-stream` as Amazon Bedrock serves them in eu-central-1 to the key AKIAGRID. */
export const fakeBedrockConverse: FakeWire = {
  dialect: 'bedrock-converse',
  asked(request) {
    const [, model, verb] = path.exec(pathOf(request)) ?? [];
    return model === undefined
      ? undefined
      : { model: decodeURIComponent(model), stream: verb === 'converse-stream' };
  },
  violations,
  streamType: 'application/vnd.amazon.eventstream',
  // A fixture's event is { "contentBlockDelta": {...} }: its only member names the event type.
  frame(event) {
    const [type, value] = Object.entries(event)[0] as [string, JsonObject];
    return writeAwsEventStreamMessage(
      { ':event-type': type, ':content-type': 'application/json', ':message-type': 'event' },
      JSON.stringify({ ...value, p: 'abcdefgh' }),
    );
  },
  isEndSign: (event) => 'messageStop' in event,
  errorBody: (_status, message) => ({ message }),
  errorFrame: (message) =>
    writeAwsEventStreamMessage(
      {
        ':exception-type': 'modelStreamErrorException',
        ':content-type': 'application/json',
        ':message-type': 'exception',
      },
      JSON.stringify({ message, originalStatusCode: 500 }),
    ),
};

/** Value of the `x-amzn-errortype` header with which Bedrock names an error. */
export function bedrockErrorType(status: number): string {
  return `${exceptions[status] ?? 'InternalServerException'}:http://internal.amazon.com/coral/com.amazon.bedrock/`;
}

function violations({ body, headers }: SeenRequest): readonly string[] {
  const rules = new Violations();
  const signed = authorization.exec(headers.authorization ?? '')?.[1]?.split(';') ?? [];
  rules.expect(signed.length > 0, 'no AWS4-HMAC-SHA256 signature of the right scope');
  rules.expect(
    signed.includes('host') && signed.includes('x-amz-date'),
    'host and x-amz-date are not signed',
  );
  rules.expect(/^\d{8}T\d{6}Z$/.test(headers['x-amz-date'] ?? ''), 'no x-amz-date');
  rules.only(body, known, 'body');
  const messages = objectsOf(body.messages);
  rules.expect(messages[0]?.role === 'user', 'messages: the first is the user’s');
  let open = new Set<string>();
  for (const [at, message] of messages.entries()) {
    const where = `messages[${at}]`;
    rules.expect(message.role !== messages[at - 1]?.role, `${where}: roles alternate`);
    open = checkMessage(rules, message, where, open);
  }
  rules.expect(open.size === 0, `toolUse without toolResult: ${[...open].join(', ')}`);
  const usesTools = /"tool(Use|Result)":/.test(JSON.stringify(messages));
  rules.expect(
    !usesTools || asObject(body.toolConfig) !== undefined,
    'toolConfig: required where the messages hold toolUse or toolResult',
  );
  for (const tool of objectsOf(asObject(body.toolConfig)?.tools)) {
    const spec = asObject(tool.toolSpec);
    rules.expect(
      spec === undefined || asObject(asObject(spec.inputSchema)?.json)?.type === 'object',
      'toolConfig: inputSchema.json is an object schema',
    );
  }
  return rules.found;
}

/** Returns the calls that wait for results after this message. */
function checkMessage(rules: Violations, message: JsonObject, where: string, open: Set<string>): Set<string> {
  const blocks = objectsOf(message.content);
  rules.expect(blocks.length > 0, `${where}: no content`);
  const asked = new Set<string>();
  for (const block of blocks) {
    const result = asObject(block.toolResult);
    if (result !== undefined) {
      const id = String(result.toolUseId);
      rules.expect(open.delete(id), `${where}: no toolUse "${id}" in the message before`);
    }
    const call = asObject(block.toolUse);
    if (call !== undefined) {
      rules.expect(asObject(call.input) !== undefined, `${where}: toolUse input is no object`);
      asked.add(String(call.toolUseId));
    }
    rules.expect(block.text !== '', `${where}: an empty text block`);
    checkMedia(rules, block, where);
  }
  rules.expect(open.size === 0, `${where}: toolUse without toolResult: ${[...open].join(', ')}`);
  return asked;
}

function checkMedia(rules: Violations, block: JsonObject, where: string): void {
  const media = asObject(block.image) ?? asObject(block.document) ?? asObject(block.video);
  if (media === undefined) return;
  const source = asObject(media.source);
  rules.expect(typeof media.format === 'string', `${where}: media without format`);
  rules.expect(source?.bytes === undefined || isBase64(source.bytes), `${where}: bytes are no base64`);
  rules.expect(
    asObject(block.document) === undefined || /^[A-Za-z0-9 ()[\]-]{1,200}$/.test(String(media.name)),
    `${where}: a document name of other characters: "${String(media.name)}"`,
  );
}
