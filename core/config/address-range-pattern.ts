const byte = '(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])';
const ipv4 = `(${byte}\\.){3}${byte}`;
const group = '[0-9A-Fa-f]{1,4}';
const ipv6 = [
  `(${group}:){7}${group}`,
  `(${group}:){1,7}:`,
  ...[1, 2, 3, 4, 5, 6].map((after) => `(${group}:){1,${7 - after}}(:${group}){1,${after}}`),
  `:(:${group}){1,7}`,
  '::',
  `::([Ff]{4}:)?${ipv4}`,
].join('|');

/**
 * What an address or a range of addresses looks like: IPv4 or IPv6, with or without the length of its prefix, or one of
 * the words `loopback` and `private`.
 */
export const addressRangePattern = `^(loopback|private|${ipv4}(/(3[0-2]|[12]?[0-9]))?|(${ipv6})(/(12[0-8]|1[01][0-9]|[1-9]?[0-9]))?)$`;
