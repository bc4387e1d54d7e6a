import type { MediaSource } from '../../core/dialects/canonical/chat-part.ts';

/** A `data:` URL as base64 with its media type, any other URL as it is. `fallback` is the media type of a `data:` URL that names none. */
export function sourceOfUrl(url: string, fallback = 'application/octet-stream'): MediaSource {
  if (!/^data:/i.test(url.slice(0, 5))) return { kind: 'url', url };
  const comma = url.indexOf(',');
  if (comma === -1) return { kind: 'url', url };
  const head = url.slice(5, comma);
  const isBase64 = /;\s*base64$/i.test(head);
  const mediaType = (head.split(';', 1)[0] as string).trim().toLowerCase() || fallback;
  const payload = url.slice(comma + 1);
  if (isBase64) return { kind: 'base64', mediaType, data: payload };
  return { kind: 'base64', mediaType, data: Buffer.from(decodePercent(payload), 'utf8').toString('base64') };
}

/** The URL that holds these bytes. */
export function dataUrl(source: { readonly mediaType: string; readonly data: string }): string {
  return `data:${source.mediaType};base64,${source.data}`;
}

function decodePercent(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
