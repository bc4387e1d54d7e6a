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
