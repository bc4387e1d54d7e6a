import type { FilePart, JsonObject, MediaSource } from '../../../core/dialects/canonical/chat-part.ts';

type MediaKind = 'image' | 'document' | 'video' | 'audio';

interface MediaFormat {
  readonly kind: MediaKind;
  /** As the API names it. */
  readonly format: string;
}

const formats: Readonly<Record<MediaKind, Readonly<Record<string, string>>>> = {
  image: {
    'image/png': 'png',
    'image/jpeg': 'jpeg',
    'image/jpg': 'jpeg',
    'image/gif': 'gif',
    'image/webp': 'webp',
  },
  document: {
    'application/pdf': 'pdf',
    'text/csv': 'csv',
    'application/msword': 'doc',
    'application/vnd.openxmlformats-officedocument.wordprocessingml.document': 'docx',
    'application/vnd.ms-excel': 'xls',
    'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet': 'xlsx',
    'text/html': 'html',
    'text/plain': 'txt',
    'text/markdown': 'md',
    'text/x-markdown': 'md',
  },
  video: {
    'video/x-matroska': 'mkv',
    'video/quicktime': 'mov',
    'video/mp4': 'mp4',
    'video/webm': 'webm',
    'video/x-flv': 'flv',
    'video/mpeg': 'mpeg',
    'video/mpg': 'mpg',
    'video/x-ms-wmv': 'wmv',
    'video/3gpp': 'three_gp',
  },
  audio: {
    'audio/mpeg': 'mp3',
    'audio/mp3': 'mp3',
    'audio/opus': 'opus',
    'audio/wav': 'wav',
    'audio/wave': 'wav',
    'audio/x-wav': 'wav',
    'audio/vnd.wave': 'wav',
    'audio/aac': 'aac',
    'audio/x-aac': 'x-aac',
    'audio/flac': 'flac',
    'audio/mp4': 'm4a',
    'audio/x-m4a': 'm4a',
    'audio/ogg': 'ogg',
    'audio/webm': 'webm',
    'audio/pcm': 'pcm',
  },
};

const byMediaType = new Map<string, MediaFormat>();
/** By a file's ending; `jpg`, `htm` and `3gp` are called otherwise by the API. */
const byEnding = new Map<string, MediaFormat>([
  ['jpg', { kind: 'image', format: 'jpeg' }],
  ['htm', { kind: 'document', format: 'html' }],
  ['3gp', { kind: 'video', format: 'three_gp' }],
]);
for (const kind of ['image', 'document', 'video', 'audio'] as const) {
  for (const [mediaType, format] of Object.entries(formats[kind])) {
    byMediaType.set(mediaType, { kind, format });
    if (!byEnding.has(format)) byEnding.set(format, { kind, format });
  }
}

/** What a file is, by its media type or else its name's ending; undefined for what the API does not take. */
function formatOf(mediaType: string | undefined, name: string | undefined): MediaFormat | undefined {
  const bare = mediaType?.split(';', 1)[0]?.trim().toLowerCase();
  const known = bare === undefined ? undefined : byMediaType.get(bare);
  if (known !== undefined || name === undefined) return known;
  return byEnding.get(/\.([a-z0-9]+)$/i.exec(name)?.[1]?.toLowerCase() ?? '');
}

/** A picture, a recording or a film; undefined for what the API cannot take (URLs other than `s3://`, other formats). */
export function mediaBlock(kind: 'image' | 'audio', source: MediaSource): JsonObject | undefined {
  const mediaType = source.kind === 'base64' ? source.mediaType : undefined;
  const format = formatOf(mediaType, source.kind === 'url' ? source.url : undefined);
  const where = blockSource(source);
  if (format?.kind !== kind || where === undefined) return undefined;
  return { [kind]: { format: format.format, source: where } };
}

/** A file as the block of its kind; undefined for what the API cannot take. */
export function fileBlock(part: FilePart, names: DocumentNames): JsonObject | undefined {
  const { source } = part;
  const where = blockSource(source);
  const given = source.kind === 'base64' ? source.mediaType : part.mediaType;
  const format =
    formatOf(given, part.filename ?? (source.kind === 'url' ? source.url : undefined)) ??
    (source.kind === 'text' ? { kind: 'document' as const, format: 'txt' } : undefined);
  if (where === undefined || format === undefined) return undefined;
  if (format.kind !== 'document') return { [format.kind]: { format: format.format, source: where } };
  const document: JsonObject = { format: format.format, name: names.next(part.filename), source: where };
  if (part.context !== undefined) document.context = part.context;
  if (part.citations === true) document.citations = { enabled: true };
  return { document };
}

function blockSource(source: MediaSource): JsonObject | undefined {
  switch (source.kind) {
    case 'base64':
      return { bytes: source.data };
    case 'text':
      return { bytes: Buffer.from(source.text).toString('base64') };
    case 'url':
      return source.url.startsWith('s3://') ? { s3Location: { uri: source.url } } : undefined;
    case 'file-id':
      return undefined;
  }
}

/** Longest name of a document. */
const maxNameLength = 200;

/**
 * Names of the documents of one request, each once: letters, digits, hyphens, parentheses, square brackets and single
 * spaces are all that the API allows. A document without a name becomes `document-1`.
 */
export class DocumentNames {
  readonly #used = new Set<string>();
  #unnamed = 0;

  next(filename: string | undefined): string {
    const base = allowedName(filename ?? '') || `document-${++this.#unnamed}`;
    let name = base;
    for (let count = 2; this.#used.has(name.toLowerCase()); count++) {
      const suffix = ` (${count})`;
      name = base.slice(0, maxNameLength - suffix.length).trimEnd() + suffix;
    }
    this.#used.add(name.toLowerCase());
    return name;
  }
}

function allowedName(filename: string): string {
  return filename
    .replace(/\.[a-z0-9]{1,8}$/i, '')
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .replace(/[^a-zA-Z0-9\s()[\]-]/g, '-')
    .replace(/^[-\s]+|[-\s]+$/g, '')
    .replace(/\s+/g, ' ')
    .slice(0, maxNameLength)
    .trim();
}
