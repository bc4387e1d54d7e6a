/** Comments, texts in quotes, names before a colon, numbers and words of YAML. Blocks of text are not told apart. */
const parts =
  /(?<comment>(?:^|\s)#.*$)|(?<name>(?:"[^"]*"|'[^']*'|[\w$./@*-]+)(?=\s*:(?:\s|$)))|(?<text>"(?:[^"\\]|\\.)*"|'[^']*')|(?<value>(?<![\w.-])(?:\d+(?:\.\d+)?|true|false|null)(?![\w.-]))/g;
const kinds = ['comment', 'name', 'text', 'value'] as const;

/** A part of a line of YAML that has a colour; offsets are from the beginning of the line. */
interface YamlPart {
  readonly kind: (typeof kinds)[number];
  readonly from: number;
  readonly to: number;
}

/** The parts of a line, in their order. */
export function yamlPartsOf(line: string): readonly YamlPart[] {
  return [...line.matchAll(parts)].flatMap(({ index, 0: found, groups = {} }) =>
    kinds
      .filter((kind) => groups[kind] !== undefined)
      .map((kind) => ({ kind, from: index, to: index + found.length })),
  );
}
