import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { AttemptContext, Replacement } from '../../core/pipeline/context.ts';
import { defineKey, definePlugin, judged } from '../../core/pipeline/plugin.ts';
import { findImages, placeOf, type FoundImage } from './find-images.ts';
import { ImageFetcher, tooMuch, type ImageResult } from './image-fetcher.ts';
import { InlineImageSchema } from './options.ts';

/** Bytes of all images of one request together, unless one alone may have more. */
const maxTotalBytes = 67_108_864;
/** Images of one request that are fetched. */
const maxImages = 64;

/** Replaces the addresses of images by the images themselves, for providers that do not fetch them. */
export default definePlugin({
  name: 'inline-image',
  description:
    'Fetches the images that chat completions, responses and messages name by an http or https URL, and sends them inline as base64. Acts per attempt, for the listed providers. Only public addresses and `security.trusted_hosts` are fetched.',
  schema: InlineImageSchema,
  // Its own timeoutMs bounds it. No `changes`: that would hold the uploads of other endpoints in memory, and modelled
  // bodies are read before an attempt.
  checks: ['default.inlineImage'],
  capabilities: { guardrail: true, timeoutMs: 0 },
  create(options, scope) {
    const { maxSizeBytes = 20_971_520, timeoutMs = 30_000, failOnError = false } = options;
    const providers = options.providers && new Set(options.providers.map(withoutAt));
    const bounds = { maxSizeBytes, timeoutMs, maxTotalBytes: Math.max(maxTotalBytes, maxSizeBytes) };
    // Of this instance: another one may have other bounds.
    const fetcherKey = defineKey<ImageFetcher>('inline-image');

    const inline = async (context: AttemptContext, images: readonly FoundImage[]): Promise<void> => {
      const { body } = context.attempt;
      let fetcher = context.get(fetcherKey);
      if (fetcher === undefined) {
        fetcher = new ImageFetcher(scope.guardedFetch, scope.clock, bounds, (bytes) => body.hold(bytes));
        context.set(fetcherKey, fetcher);
      }
      const running = fetcher;
      const forget = context.onAbort(() => running.stop());
      const results = await running.fetchAll(images.slice(0, maxImages).map(({ url }) => url));
      forget();
      if (context.aborted) return;
      const { replacements, left, size } = judge(images, results, bounds.maxTotalBytes);
      const [first] = left;
      if (failOnError && first !== undefined) throw refusal(first.place, first.error);
      if (first !== undefined) {
        scope.log.warn('Images could not be fetched; their URLs stay', {
          request_id: context.id,
          count: left.length,
          images: left.slice(0, maxImages).map(({ place, error }) => `${place}: ${error.message}`),
        });
      }
      // What the provider is sent, beside the images that are kept for later attempts.
      body.hold(Math.ceil((size * 4) / 3));
      body.replaceAll(replacements);
      context.set(judged, replacements.length === 0 ? 'skipped' : 'changed');
    };

    return {
      attempt(context) {
        const { attempt, endpoint } = context;
        if (providers && !providers.has(withoutAt(attempt.provider)) && !providers.has(attempt.aiService)) {
          context.set(judged, 'skipped');
          return undefined;
        }
        const images = attempt.body.loaded ? findImages(endpoint.id, attempt.body.json) : [];
        if (images.length > 0) return inline(context, images);
        context.set(judged, 'skipped');
        return undefined;
      },
    };
  },
});

/** What becomes of each image. One that is named several times is sent, and counted, as often. */
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
