import { isJsonObject } from '../../core/base/json.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import {
  type JsonObject,
  type JsonPath,
  type JsonValue,
  onceIn,
  type Replacement,
} from '../../core/pipeline/context.ts';
import {
  type CheckSubject,
  defineCheck,
  defineKey,
  definePlugin,
  judged,
  passed,
  type Scope,
  skipped,
  type Static,
  Type,
} from '../../core/pipeline/plugin.ts';
import type { EndpointId } from '../../core/dialects/endpoint.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { GuardedFetch } from '../../core/ports/transport.ts';

/** Brands of ISO media files that hold one picture. */
const brands: Readonly<Record<string, string>> = {
  avif: 'image/avif',
  heic: 'image/heic',
  heix: 'image/heic',
  heim: 'image/heic',
  heis: 'image/heic',
  mif1: 'image/heif',
};

/**
 * The media type that the bytes themselves show: PNG, JPEG, GIF, WebP, HEIC, HEIF or AVIF, the formats that models
 * read. Undefined for anything else, whatever a server calls it (SVG and HTML among it).
 */
export function imageType(bytes: Buffer): string | undefined {
  const head = bytes.toString('latin1', 0, 12);
  if (head.startsWith('\x89PNG\r\n\x1a\n')) return 'image/png';
  if (head.startsWith('\xff\xd8\xff')) return 'image/jpeg';
  if (head.startsWith('GIF87a') || head.startsWith('GIF89a')) return 'image/gif';
  if (head.startsWith('RIFF') && head.slice(8) === 'WEBP') return 'image/webp';
  return head.slice(4, 8) === 'ftyp' ? brands[head.slice(8)] : undefined;
}

/** An image as requests carry it. */
interface InlinedImage {
  readonly mediaType: string;
  readonly base64: string;
  /** Bytes of the image itself. */
  readonly size: number;
}

/** Result for an image. */
type ImageResult = InlinedImage | GatewayError;

/** Images fetched at once for one request. */
const maxParallel = 8;

/** Bounds of the images of one request. */
interface ImageBounds {
  readonly maxSizeBytes: number;
  readonly maxTotalBytes: number;
  readonly timeoutMs: number;
}

/** Fetches the images of one request: each URL once, also when a later attempt asks for it again. */
class ImageFetcher {
  private readonly fetcher: GuardedFetch;
  private readonly clock: Clock;
  private readonly bounds: ImageBounds;
  private readonly hold: (bytes: number) => void;
  private readonly results = new Map<string, ImageResult>();
  private totalBytes = 0;

  /** `hold` counts memory that is kept, and throws when there is no room. */
  constructor(fetcher: GuardedFetch, clock: Clock, bounds: ImageBounds, hold: (bytes: number) => void) {
    this.fetcher = fetcher;
    this.clock = clock;
    this.bounds = bounds;
    this.hold = hold;
  }

  /** The result of each URL. Never rejects. `signal` aborts running fetches; a later attempt may ask again. */
  async fetchAll(urls: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, ImageResult>> {
    const missing = [...new Set(urls)].filter((url) => !this.results.has(url));
    const until = this.clock.monotonic() + this.bounds.timeoutMs;
    const next = async (): Promise<void> => {
      for (let url = missing.shift(); url !== undefined && !signal.aborted; url = missing.shift()) {
        const result = await this.fetch(url, until, signal);
        if (!signal.aborted) this.results.set(url, result);
      }
    };
    await Promise.all(Array.from({ length: Math.min(maxParallel, missing.length) }, next));
    return this.results;
  }

  private async fetch(url: string, until: number, signal: AbortSignal): Promise<ImageResult> {
    const timeoutMs = Math.ceil(until - this.clock.monotonic());
    if (timeoutMs <= 0) {
      return failed(`The images did not all come within ${this.bounds.timeoutMs} ms (timeoutMs).`);
    }
    const { answer, abort } = this.fetcher.fetch({
      url,
      headers: ['accept', 'image/*', 'user-agent', 'weir'],
      timeoutMs,
      maxBytes: this.bounds.maxSizeBytes,
      accept: (status) => {
        if (status !== 200) throw failed('Its server does not answer with an image (status 200).');
      },
    });
    signal.addEventListener('abort', abort);
    try {
      return this.inline((await answer).body);
    } catch (error) {
      if (GatewayError.is(error)) return error;
      throw error;
    } finally {
      signal.removeEventListener('abort', abort);
    }
  }

  private inline(bytes: Buffer): ImageResult {
    const mediaType = imageType(bytes);
    if (mediaType === undefined) {
      return failed('What its server sent is no PNG, JPEG, GIF, WebP, HEIC, HEIF or AVIF image.');
    }
    const { maxTotalBytes } = this.bounds;
    if (this.totalBytes + bytes.length > maxTotalBytes) return tooMuch(maxTotalBytes);
    this.totalBytes += bytes.length;
    const base64 = bytes.toString('base64');
    this.hold(base64.length);
    return { mediaType, base64, size: bytes.length };
  }
}

/** All images of a request together are too large. */
function tooMuch(maxTotalBytes: number): GatewayError {
  return failed(`The images of the request together are larger than ${maxTotalBytes} bytes. Send fewer.`);
}

function failed(message: string): GatewayError {
  return new GatewayError('fetch_failed', message);
}

/** Options of `inline-image`, spelled as in existing guardrail configurations. */
const InlineImageSchema = Type.Object(
  {
    providers: Type.Optional(
      Type.Array(Type.String({ minLength: 1, maxLength: 255 }), {
        minItems: 1,
        maxItems: 1000,
        uniqueItems: true,
        description:
          'Only for attempts at these providers: a name as addressed, a slug with or without its `@`, or a kind of provider (`anthropic`). Default: for every provider.',
      }),
    ),
    maxSizeBytes: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 104_857_600,
        default: 20_971_520,
        description:
          'Largest image. All images of a request together may have 64 MiB, or this value if it is larger.',
      }),
    ),
    timeoutMs: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 600_000,
        default: 30_000,
        description: 'Longest wait for all images of an attempt together, in milliseconds.',
      }),
    ),
    failOnError: Type.Optional(
      Type.Boolean({
        default: false,
        description:
          'Refuse the request if an image cannot be fetched. If false, its URL stays unchanged and the log warns.',
      }),
    ),
  },
  { additionalProperties: false },
);

/** The options as written. */
export type InlineImageOptions = Static<typeof InlineImageSchema>;

/** Bytes of all images of one request together, unless one alone may have more. */
const maxTotalBytes = 67_108_864;
/** Images of one request that are fetched. */
const maxImages = 64;

/** The request of one attempt, as far as its images are concerned. */
type Inlinable = Pick<CheckSubject, 'id' | 'endpoint' | 'json' | 'provider' | 'service'> &
  Pick<CheckSubject, 'once' | 'hold' | 'replaceAll' | 'signal'>;

/** Result for the images of an attempt. */
interface Inlined {
  readonly count: number;
  /** Those whose URLs stay, by their place. */
  readonly left: readonly { readonly place: string; readonly error: GatewayError }[];
}

/** Replaces addresses of images with the images: for a plugin of a pipeline and a check of guardrails alike. */
class Inliner {
  readonly #scope: Scope;
  readonly #providers: ReadonlySet<string> | undefined;
  readonly #bounds: ImageBounds;
  readonly #failOnError: boolean;
  /** Of this instance: another one may have other bounds. */
  readonly #fetcher = defineKey<ImageFetcher>('inline-image');

  constructor(options: InlineImageOptions, scope: Scope) {
    const { providers, maxSizeBytes = 20_971_520, timeoutMs = 30_000, failOnError = false } = options;
    this.#scope = scope;
    this.#providers = providers && new Set(providers.map(withoutAt));
    this.#bounds = { maxSizeBytes, timeoutMs, maxTotalBytes: Math.max(maxTotalBytes, maxSizeBytes) };
    this.#failOnError = failOnError;
  }

  /** Undefined where there is nothing to do. Rejects for an image that cannot be sent, with `failOnError`. */
  inline(request: Inlinable): Promise<Inlined> | undefined {
    const { provider, service, endpoint, json } = request;
    const isMeant = [withoutAt(provider), service].some((name) => this.#providers?.has(name) !== false);
    const images = isMeant ? findImages(endpoint, json) : [];
    return images.length === 0 ? undefined : this.#inline(request, images);
  }

  async #inline(request: Inlinable, images: readonly FoundImage[]): Promise<Inlined> {
    const { guardedFetch, clock, log } = this.#scope;
    const { signal } = request;
    const hold = (bytes: number): void => request.hold(bytes);
    const fetcher = request.once(
      this.#fetcher,
      () => new ImageFetcher(guardedFetch, clock, this.#bounds, hold),
    );
    const urls = images.slice(0, maxImages).map(({ url }) => url);
    const results = await fetcher.fetchAll(urls, signal);
    if (signal.aborted) return { count: 0, left: [] };
    const { replacements, left, size } = judge(images, results, this.#bounds.maxTotalBytes);
    const [first] = left;
    if (this.#failOnError && first !== undefined) throw refusal(first.place, first.error);
    if (first !== undefined) {
      log.warn('Images could not be fetched; their URLs stay', {
        request_id: request.id,
        count: left.length,
        images: left.slice(0, maxImages).map(({ place, error }) => `${place}: ${error.message}`),
      });
    }
    // Memory of the request that goes out, beside the images that are kept for later attempts.
    request.hold(Math.ceil((size * 4) / 3));
    request.replaceAll(replacements);
    return { count: replacements.length, left };
  }
}

/** The same for guardrails of configs, headers, defaults and the store. */
const inlineImageCheck = defineCheck({
  id: 'default.inlineImage',
  aliases: ['inline-image'],
  description:
    'Sends the images that a chat request names by an http or https URL inline as base64, for attempts at the listed providers. Passes; with failOnError, an image that cannot be fetched counts as an error of the check.',
  phases: ['input'],
  changes: true,
  // Its own timeoutMs bounds it.
  timeoutMs: 610_000,
  schema: InlineImageSchema,
  create(options, scope) {
    const inliner = new Inliner(options, scope);
    return (subject) => {
      const inlining = inliner.inline(subject);
      if (inlining === undefined) return skipped('The request names no image that is to be sent inline.');
      return inlining.then(({ count, left }) => {
        const data = {
          inlined: count,
          left: left.slice(0, maxImages).map(({ place, error }) => `${place}: ${error.message}`),
        };
        return count > 0 ? passed(data) : { verdict: 'skipped', data };
      });
    };
  },
});

/** Replaces the addresses of images by the images themselves, for providers that do not fetch them. */
export default definePlugin({
  name: 'inline-image',
  description:
    'Fetches the images that chat completions, responses and messages name by an http or https URL, and sends them inline as base64. Acts per attempt, for the listed providers. Only public addresses and `security.trusted_hosts` are fetched.',
  schema: InlineImageSchema,
  // Its own timeoutMs bounds it. No `changes`: that would hold the uploads of other endpoints in memory, and modelled
  // bodies are read before an attempt.
  offers: [inlineImageCheck],
  capabilities: { guardrail: true, timeoutMs: 0 },
  create(options, scope) {
    const inliner = new Inliner(options, scope);
    return {
      attempt(context) {
        const { id, attempt, endpoint } = context;
        const { body, provider, aiService: service } = attempt;
        const left = new AbortController();
        const inlining = inliner.inline({
          id,
          endpoint: endpoint.id,
          json: body.loaded ? body.json : undefined,
          provider,
          service,
          signal: left.signal,
          once: (key, make) => onceIn(context, key, make),
          hold: (bytes) => body.hold(bytes),
          replaceAll: (replacements) => body.replaceAll(replacements),
        });
        if (inlining === undefined) {
          context.set(judged, 'skipped');
          return undefined;
        }
        const forget = context.onAbort(() => left.abort());
        return inlining.finally(forget).then(({ count }) => {
          context.set(judged, count === 0 ? 'skipped' : 'changed');
        });
      },
    };
  },
});

/** Decides on each image. One that is named several times is sent, and counted, as often. */
function judge(images: readonly FoundImage[], results: ReadonlyMap<string, ImageResult>, maxBytes: number) {
  const replacements: Replacement[] = [];
  const left: { readonly place: string; readonly error: GatewayError }[] = [];
  let size = 0;
  for (const [index, image] of images.entries()) {
    const fetched = (index < maxImages ? results.get(image.url) : undefined) ?? tooMany();
    const result = !GatewayError.is(fetched) && size + fetched.size > maxBytes ? tooMuch(maxBytes) : fetched;
    if (GatewayError.is(result)) {
      left.push({ place: placeOf(image.path), error: result });
      continue;
    }
    size += result.size;
    replacements.push({ path: image.path, value: image.inlined(result.mediaType, result.base64) });
  }
  return { replacements, left, size };
}

function tooMany(): GatewayError {
  return new GatewayError('fetch_failed', `Only ${maxImages} images of a request are fetched. Send fewer.`);
}

function withoutAt(provider: string): string {
  return provider.startsWith('@') ? provider.slice(1) : provider;
}

function refusal(place: string, cause: GatewayError): GatewayError {
  return new GatewayError(cause.code, `The image at ${place} cannot be sent inline. ${cause.message}`, {
    param: place,
    headers: cause.headers,
    cause,
  });
}

/** An image that the request names by its address. */
interface FoundImage {
  readonly url: string;
  /** Path of the replaced value. */
  readonly path: JsonPath;
  /** The value that takes its place. */
  inlined(mediaType: string, base64: string): JsonValue;
}

/**
 * The external images (`http:` and `https:` URLs) of a chat request, in order. Data URLs, file ids and the addresses
 * of other schemes, which only the provider understands, are none. Empty for endpoints without conversations.
 */
export function findImages(endpoint: EndpointId, body: JsonValue | undefined): FoundImage[] {
  if (!isJsonObject(body)) return [];
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
  return list.flatMap((value, index) => (isJsonObject(value) ? find(value, [...path, index]) : []));
}

/** `image_url: { url }`, or its URL alone, as some clients send it. */
function chatImage(part: JsonObject, path: JsonPath): FoundImage[] {
  if (part['type'] !== 'image_url') return [];
  const image = part['image_url'];
  return isJsonObject(image)
    ? dataUrl(image['url'], [...path, 'image_url', 'url'])
    : dataUrl(image, [...path, 'image_url']);
}

function responsesImage(part: JsonObject, path: JsonPath): FoundImage[] {
  return part['type'] === 'input_image' ? dataUrl(part['image_url'], [...path, 'image_url']) : [];
}

/** The screenshot in the output of a computer tool. */
function screenshot(item: JsonObject, path: JsonPath): FoundImage[] {
  const { output } = item;
  if (!isJsonObject(output) || output['type'] !== 'computer_screenshot') return [];
  return dataUrl(output['image_url'], [...path, 'output', 'image_url']);
}

/** Images of a message, and those within the results of its tools. */
function messagesImage(block: JsonObject, path: JsonPath): FoundImage[] {
  if (block['type'] === 'tool_result') return each(block['content'], [...path, 'content'], messagesImage);
  const source = block['source'];
  if (block['type'] !== 'image' || !isJsonObject(source) || source['type'] !== 'url') return [];
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

/** A place as errors and the log name it: `messages[0].content[1].image_url.url`. */
export function placeOf(path: JsonPath): string {
  return path
    .map((step) => (typeof step === 'number' ? `[${step}]` : `.${step}`))
    .join('')
    .slice(1);
}
