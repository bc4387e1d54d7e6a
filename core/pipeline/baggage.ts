import { isHeaderName } from '../base/header-names.ts';

/** The least that W3C Baggage asks everybody to carry, and all that is read. */
const maxMembers = 64;
const maxLength = 8192;

/** `baggage-octet`, where a `%` begins two hexadecimal digits. */
const value = /^(?:[!#$&-+\--:<-[\]-~]|%[0-9A-Fa-f]{2})*$/;

/**
 * Members of the header `baggage` of W3C Baggage: values percent-decoded, properties left out, members of another form
 * skipped, the last of equal names. At most the first 64, and those that end within 8192 bytes.
 */
export function readBaggage(header: string): ReadonlyMap<string, string> {
  const members = new Map<string, string>();
  const list = header.split(',');
  let end = -1;
  for (let i = 0; i < list.length && i < maxMembers; i++) {
    const item = list[i] as string;
    end += item.length + 1;
    if (end > maxLength) break;
    const [member = ''] = item.split(';', 1);
    const equals = member.indexOf('=');
    if (equals === -1) continue;
    const name = member.slice(0, equals).trim();
    const text = member.slice(equals + 1).trim();
    if (isHeaderName(name) && value.test(text)) members.set(name, decode(text));
  }
  return members;
}

/** Octets that are no UTF-8 become U+FFFD, as the standard asks. */
function decode(text: string): string {
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    const bytes = text.replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    );
    return Buffer.from(bytes, 'latin1').toString('utf8');
  }
}
