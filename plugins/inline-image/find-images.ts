import type { EndpointId } from '../../core/dialects/endpoint.ts';
import type { JsonObject, JsonPath, JsonValue } from '../../core/pipeline/context.ts';

/** An image that the request names by its address. */
export interface FoundImage {
  readonly url: string;
  /** What is replaced. */
  readonly path: JsonPath;
  /** The value that takes its place. */
  inlined(mediaType: string, base64: string): JsonValue;
}

/**
 * The external images (`http:` and `https:` URLs) of a chat request, in order. Data URLs, file ids and the addresses
 * of other schemes, which only the provider understands, are none. Empty for endpoints without conversations.
 */
export function findImages(endpoint: EndpointId, body: JsonValue | undefined): FoundImage[] {
  if (!isObject(body)) return [];
  switch (endpoint) {
    case 'chat.completions':
      return inContents(body['messages'], ['messages'], ['content'], chatImage);
    case 'responses':
      return [
        ...inContents(body['input'], ['input'], ['content', 'output'], responsesImage),
        ...each(body['input'], ['input'], screenshot),
      ];
    case 'messages':
      return inContents(body['messages'], ['messages'], ['content'], messagesImage);
    default:
      return [];
  }
}

type Find = (value: JsonObject, path: JsonPath) => FoundImage[];

/** Looks at the parts of every message, which stand in the lists of this name. */
function inContents(list: JsonValue | undefined, path: JsonPath, names: readonly string[], find: Find) {
  return each(list, path, (message, at) => names.flatMap((name) => each(message[name], [...at, name], find)));
}

function each(list: JsonValue | undefined, path: JsonPath, find: Find): FoundImage[] {
  if (!Array.isArray(list)) return [];
  return list.flatMap((value, index) => (isObject(value) ? find(value, [...path, index]) : []));
}

/** `image_url: { url }`, or its URL alone, as some clients send it. */
function chatImage(part: JsonObject, path: JsonPath): FoundImage[] {
  if (part['type'] !== 'image_url') return [];
  const image = part['image_url'];
  return isObject(image)
    ? dataUrl(image['url'], [...path, 'image_url', 'url'])
    : dataUrl(image, [...path, 'image_url']);
}

function responsesImage(part: JsonObject, path: JsonPath): FoundImage[] {
  return part['type'] === 'input_image' ? dataUrl(part['image_url'], [...path, 'image_url']) : [];
}

/** What a tool that uses a computer shows. */
function screenshot(item: JsonObject, path: JsonPath): FoundImage[] {
  const { output } = item;
  if (!isObject(output) || output['type'] !== 'computer_screenshot') return [];
  return dataUrl(output['image_url'], [...path, 'output', 'image_url']);
}

/** Images of a message, and those within the results of its tools. */
function messagesImage(block: JsonObject, path: JsonPath): FoundImage[] {
  if (block['type'] === 'tool_result') return each(block['content'], [...path, 'content'], messagesImage);
  const source = block['source'];
  if (block['type'] !== 'image' || !isObject(source) || source['type'] !== 'url') return [];
  const { url } = source;
  if (!isExternal(url)) return [];
  return [
    {
      url,
      path: [...path, 'source'],
      inlined: (mediaType, data) => ({ type: 'base64', media_type: mediaType, data }),
    },
  ];
}

function dataUrl(url: JsonValue | undefined, path: JsonPath): FoundImage[] {
  if (!isExternal(url)) return [];
  return [{ url, path, inlined: (mediaType, base64) => `data:${mediaType};base64,${base64}` }];
}

function isExternal(url: JsonValue | undefined): url is string {
  return typeof url === 'string' && /^\s*https?:/i.test(url);
}

function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A place as errors and the log name it: `messages[0].content[1].image_url.url`. */
export function placeOf(path: JsonPath): string {
  return path
    .map((step) => (typeof step === 'number' ? `[${step}]` : `.${step}`))
    .join('')
    .slice(1);
}
