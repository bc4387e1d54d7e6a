import { GatewayError } from '../errors/gateway-error.ts';
import { codingOf, decodeWhole } from '../connection/content-encoding.ts';
import { isStreamSource, type Answer } from '../pipeline/answer.ts';
import { decodedSource } from '../pipeline/decoded-source.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import type { Clock } from '../ports/clock.ts';
import { headerValue, type HeaderList } from '../ports/header-list.ts';
import { learnFacts } from './learn-facts.ts';
import { TranslatedStream } from './translated-stream.ts';
import type { TranslatedBody, Translation } from './translation.ts';

/** A compressed answer may grow to this. */
const maxDecodedBytes = 64 * 1024 * 1024;
/** They describe the provider's bytes and not the client's. */
const ofTheBody: ReadonlySet<string> = new Set([
  'content-type',
  'content-length',
  'content-encoding',
  'transfer-encoding',
  'content-md5',
  'etag',
]);

/** What the provider answered, in the client's wire. Throws `upstream_invalid` for what cannot be read. */
export async function translatedAnswer(
  exchange: Exchange,
  raw: Answer,
  translation: Translation,
  clock: Clock,
): Promise<Answer> {
  const contentType = headerValue(raw.headers, 'content-type') ?? '';
  const coding = codingOf(headerValue(raw.headers, 'content-encoding'));
  if (coding === 'unknown') {
    throw invalid('The answer is compressed in a way that the gateway cannot read.');
  }
  const { body } = raw;
  if (body !== null && isStreamSource(body)) {
    const codecs = translation.stream?.(contentType);
    if (codecs === undefined) throw invalid('The provider answered with a stream where none was asked for.');
    const source = coding === 'identity' ? body : decodedSource(body, coding);
    return {
      status: raw.status,
      headers: headersAs(raw.headers, codecs.writer.contentType),
      body: new TranslatedStream(source, codecs, exchange, clock),
      source: 'provider',
      dialect: exchange.dialect.name,
    };
  }
  const bytes = await plainBytes(body ?? Buffer.alloc(0), coding);
  if (raw.status < 200 || raw.status >= 300) {
    const { told } = translation.error(raw.status, bytes);
    const headers = headersAs(raw.headers, 'application/json');
    return { status: raw.status, headers, body: told, source: 'provider', isJson: true };
  }
  const whole = readWhole(exchange, translation, bytes, contentType);
  learnFacts(exchange, whole.facts);
  const isJson = whole.contentType === 'application/json';
  const headers = headersAs(raw.headers, whole.contentType);
  return { status: raw.status, headers, body: whole.body, source: 'provider', isJson, facts: whole.facts };
}

/** An answer that cannot be read is the provider's fault, and says whose. */
function readWhole(
  exchange: Exchange,
  translation: Translation,
  bytes: Buffer,
  contentType: string,
): TranslatedBody {
  try {
    return translation.whole(bytes, contentType);
  } catch (error) {
    if (!GatewayError.is(error) || error.code !== 'upstream_invalid') throw error;
    throw new GatewayError(error.code, error.message, {
      source: 'provider',
      extra: { provider: exchange.facts.provider },
      cause: error,
    });
  }
}

function invalid(message: string): GatewayError {
  return new GatewayError('upstream_invalid', message, { source: 'provider' });
}

async function plainBytes(body: Buffer, coding: 'identity' | 'gzip' | 'deflate' | 'br'): Promise<Buffer> {
  if (coding === 'identity') return body;
  try {
    return await decodeWhole(body, coding, maxDecodedBytes);
  } catch (cause) {
    throw new GatewayError('upstream_invalid', `The provider's answer is no valid ${coding} data.`, {
      cause,
      source: 'provider',
    });
  }
}

function headersAs(headers: HeaderList, contentType: string): string[] {
  const kept = ['content-type', contentType];
  for (let i = 0; i < headers.length; i += 2) {
    if (!ofTheBody.has((headers[i] as string).toLowerCase())) {
      kept.push(headers[i] as string, headers[i + 1] as string);
    }
  }
  return kept;
}
