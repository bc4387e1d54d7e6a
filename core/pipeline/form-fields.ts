/** One field of a form, as every reader of forms takes it. */
export interface FormField {
  readonly name: string;
  readonly value: Buffer;
}

/** Longest name or header line of one part. */
const maxLine = 1_000;

/**
 * The fields of a form, when all readers of forms agree on them; undefined for a body that some of them read otherwise:
 * another type, a boundary that stands elsewhere too, text before the first part or after the last, folded or odd
 * headers, encoded values. `contentType` is the one header of that name.
 */
export function formFields(contentType: string, bytes: Buffer): readonly FormField[] | undefined {
  if (isUrlEncoded(contentType)) {
    const text = bytes.toString('latin1');
    return /^[!-~]*$/.test(text) ? urlEncodedFields(text) : undefined;
  }
  const boundary = boundaryOf(contentType);
  return boundary === undefined ? undefined : partsOf(bytes, boundary);
}

/** Whether the type is that of a form in one line (`a=1&b=2`). */
export function isUrlEncoded(contentType: string): boolean {
  return /^\s*application\/x-www-form-urlencoded\s*(?:;|$)/i.test(contentType);
}

/** The fields of a query or a form in one line; `;` separates them too, as some old readers have it. */
export function urlEncodedFields(text: string): readonly FormField[] {
  const fields: FormField[] = [];
  for (const pair of text.split(/[&;]/)) {
    if (pair === '') continue;
    const at = pair.indexOf('=');
    const name = at === -1 ? pair : pair.slice(0, at);
    const value = at === -1 ? '' : pair.slice(at + 1);
    fields.push({ name: decoded(name), value: Buffer.from(decoded(value), 'utf8') });
  }
  return fields;
}

function decoded(text: string): string {
  const spaced = text.replaceAll('+', ' ');
  try {
    return decodeURIComponent(spaced);
  } catch {
    return spaced;
  }
}

function boundaryOf(contentType: string): string | undefined {
  const found =
    /^\s*multipart\/form-data\s*;\s*boundary=(?:"([\w'()+,./:=? -]{1,70})"|([\w'+.-]{1,70}))\s*$/i.exec(
      contentType,
    );
  const boundary = found?.[1] ?? found?.[2];
  return boundary?.endsWith(' ') === true ? undefined : boundary;
}

const crlf = '\r\n';

function partsOf(bytes: Buffer, boundary: string): readonly FormField[] | undefined {
  const fields: FormField[] = [];
  const line = `--${boundary}`;
  let from = startOfPart(bytes, 0, line);
  while (from !== undefined && !isLast(bytes, from)) {
    const next = bytes.indexOf(line, from, 'latin1');
    if (next === -1 || !precededByLine(bytes, next)) return undefined;
    const field = readPart(bytes.subarray(from + crlf.length, next - crlf.length));
    if (field === undefined) return undefined;
    fields.push(field);
    from = startOfPart(bytes, next, line);
  }
  if (from === undefined) return undefined;
  const rest = bytes.toString('latin1', from + 2, from + 6);
  return bytes.length <= from + 4 && (rest === '' || rest === crlf) ? fields : undefined;
}

/** Behind the boundary that stands here, which a line's end or the end of the form must follow. */
function startOfPart(bytes: Buffer, at: number, line: string): number | undefined {
  const end = at + line.length;
  if (bytes.toString('latin1', at, end) !== line) return undefined;
  const after = bytes.toString('latin1', end, end + 2);
  return after === crlf || after === '--' ? end : undefined;
}

function isLast(bytes: Buffer, from: number): boolean {
  return bytes.toString('latin1', from, from + 2) === '--';
}

function precededByLine(bytes: Buffer, at: number): boolean {
  return bytes.toString('latin1', at - crlf.length, at) === crlf;
}

const disposition =
  /^content-disposition: *form-data; *name=(?:"([^"\\\r\n]*)"|([\w.[\]-]+))(?:; *filename=(?:"([^"\\\r\n]*)"|[\w.-]+))?(?:; *filename\*=[\w.%'~-]+)?$/i;
const type = /^content-type: *[^\s;,]+(?:; *[\w-]+=(?:"[^"\\]*"|[^\s;",]+))*$/i;
const plainHeader = /^(?:content-length: *\d+|content-transfer-encoding: *(?:7bit|8bit|binary))$/i;

/** Undefined for a part whose name or value some readers take otherwise. */
function readPart(part: Buffer): FormField | undefined {
  const end = part.indexOf(`${crlf}${crlf}`, 0, 'latin1');
  if (end === -1 || end > 4 * maxLine) return undefined;
  let name: string | undefined;
  for (const line of part.toString('utf8', 0, end).split(crlf)) {
    if (line.length > maxLine || /[\r\n\0]/.test(line)) return undefined;
    const found = disposition.exec(line);
    if (found !== null) {
      if (name !== undefined || /name\s*\*?=/i.test(found[3] ?? '')) return undefined;
      name = decoded(found[1] ?? found[2] ?? '');
    } else if (!plainHeader.test(line) && !(type.test(line) && !saysOtherCharset(line))) return undefined;
  }
  // A field of this name tells how the others are encoded.
  if (name === undefined || name === '_charset_') return undefined;
  return { name, value: part.subarray(end + 2 * crlf.length) };
}

/** Whether a content type names an encoding in which the same bytes are another text. */
export function saysOtherCharset(contentType: string): boolean {
  const named = [...contentType.matchAll(/charset\s*\*?\d*\*?=\s*"?([^";,\s]*)/gi)];
  return named.some((one) => !/^(?:utf-?8|us-ascii)$/i.test(one[1] ?? ''));
}
