import type { HeaderList } from '../../core/ports/header-list.ts';

/**
 * The headers without those that belong to one connection or to the framing, which the transport writes itself:
 * `connection`, `keep-alive`, `upgrade`, `transfer-encoding`, `expect`, and `content-length` when the body is bytes.
 * The same list comes back when there is nothing to remove.
 */
export function wireHeaders(headers: HeaderList, bodyIsBytes: boolean): HeaderList {
  for (let i = 0; i < headers.length; i += 2) {
    if (isOwned(headers[i] as string, bodyIsBytes)) return without(headers, i, bodyIsBytes);
  }
  return headers;
}

function without(headers: HeaderList, first: number, bodyIsBytes: boolean): HeaderList {
  const kept = headers.slice(0, first);
  for (let i = first + 2; i < headers.length; i += 2) {
    const name = headers[i] as string;
    if (!isOwned(name, bodyIsBytes)) kept.push(name, headers[i + 1] as string);
  }
  return kept;
}

function isOwned(name: string, bodyIsBytes: boolean): boolean {
  // By length first: nearly every header is told apart without lower-casing it.
  switch (name.length) {
    case 6:
      return name.toLowerCase() === 'expect';
    case 7:
      return name.toLowerCase() === 'upgrade';
    case 10: {
      const lower = name.toLowerCase();
      return lower === 'connection' || lower === 'keep-alive';
    }
    case 14:
      return bodyIsBytes && name.toLowerCase() === 'content-length';
    case 17:
      return name.toLowerCase() === 'transfer-encoding';
    default:
      return false;
  }
}
