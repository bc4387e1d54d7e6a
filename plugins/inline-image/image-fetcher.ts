import { GatewayError } from '../../core/errors/gateway-error.ts';
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

/** What came of an image. */
export type ImageResult = InlinedImage | GatewayError;

/** Images fetched at once for one request. */
const maxParallel = 8;

/** What bounds the images of one request. */
interface ImageBounds {
  readonly maxSizeBytes: number;
  readonly maxTotalBytes: number;
  readonly timeoutMs: number;
}

/** Fetches the images of one request: each URL once, also when a later attempt asks for it again. */
export class ImageFetcher {
  private readonly fetcher: GuardedFetch;
  private readonly clock: Clock;
  private readonly bounds: ImageBounds;
  private readonly hold: (bytes: number) => void;
  private readonly results = new Map<string, ImageResult>();
  private readonly underWay = new Set<() => void>();
  private totalBytes = 0;
  private stopped = false;

  /** `hold` counts memory that is kept, and throws when there is no room. */
  constructor(fetcher: GuardedFetch, clock: Clock, bounds: ImageBounds, hold: (bytes: number) => void) {
    this.fetcher = fetcher;
    this.clock = clock;
    this.bounds = bounds;
    this.hold = hold;
  }

  /** What came of each URL. Never rejects. */
  async fetchAll(urls: readonly string[]): Promise<ReadonlyMap<string, ImageResult>> {
    const missing = [...new Set(urls)].filter((url) => !this.results.has(url));
    const until = this.clock.monotonic() + this.bounds.timeoutMs;
    const next = async (): Promise<void> => {
      for (let url = missing.shift(); url !== undefined; url = missing.shift()) {
        this.results.set(url, await this.fetch(url, until));
      }
    };
    await Promise.all(Array.from({ length: Math.min(maxParallel, missing.length) }, next));
    return this.results;
  }

  /** Gives up what is under way; nothing is fetched any more. */
  stop(): void {
    this.stopped = true;
    for (const abort of this.underWay) abort();
  }

  private async fetch(url: string, until: number): Promise<ImageResult> {
    const timeoutMs = Math.ceil(until - this.clock.monotonic());
    if (this.stopped) return failed('The client left before the image was fetched.');
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
    this.underWay.add(abort);
    try {
      return this.inline((await answer).body);
    } catch (error) {
      if (GatewayError.is(error)) return error;
      throw error;
    } finally {
      this.underWay.delete(abort);
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
export function tooMuch(maxTotalBytes: number): GatewayError {
  return failed(`The images of the request together are larger than ${maxTotalBytes} bytes. Send fewer.`);
}

function failed(message: string): GatewayError {
  return new GatewayError('fetch_failed', message);
}
