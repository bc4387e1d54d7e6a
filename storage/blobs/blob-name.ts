const segment = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,254}$/;

/** The parts of a name. Throws `TypeError` for one that could lead somewhere else. */
export function nameParts(name: string): readonly string[] {
  const parts = name.split('/');
  if (parts.every((part) => segment.test(part))) return parts;
  throw new TypeError(`"${name.slice(0, 64)}" is no name of a blob.`);
}
