/** A file of the configuration. */
export interface ConfigFile {
  /** Absolute. */
  readonly path: string;
  /** As people know it: the main file as it was named, included ones relative to it. For messages. */
  readonly name: string;
}

/** Where a node begins. Lines and columns count from 1, columns in UTF-16 units as editors do. */
export interface NodePlace {
  readonly file: ConfigFile;
  readonly line: number;
  readonly column: number;
}

/** What a text was put together from, when it held `${…}`. */
export interface Origin {
  /** The placeholders without their defaults, for messages: `${OPENAI_API_KEY}`. */
  readonly names: readonly string[];
  /** True when the text was one placeholder and nothing else. */
  readonly whole: boolean;
  /** False when a variable or file was missing, which has been reported already. */
  readonly resolved: boolean;
}

/** What a YAML scalar can be; dates and other tagged values stay text. */
type ScalarValue = string | number | boolean | null;

/** A single value: text, number, boolean or nothing. */
export interface ScalarNode {
  readonly kind: 'scalar';
  readonly place: NodePlace;
  readonly value: ScalarValue;
  readonly origin?: Origin;
}

/** A key of an object and what stands under it. */
export interface MapEntry {
  readonly key: NodePlace;
  readonly node: ConfigNode;
}

/** An object; its keys in file order. */
export interface MapNode {
  readonly kind: 'map';
  readonly place: NodePlace;
  readonly entries: ReadonlyMap<string, MapEntry>;
}

/** A list. */
interface ListNode {
  readonly kind: 'list';
  readonly place: NodePlace;
  readonly items: readonly ConfigNode[];
}

/** The configuration as written, with places; what is left of YAML after parsing. */
export type ConfigNode = ScalarNode | MapNode | ListNode;

/** The plain value of a node. */
export function nodeValue(node: ConfigNode): unknown {
  if (node.kind === 'scalar') return node.value;
  if (node.kind === 'list') return node.items.map(nodeValue);
  return Object.fromEntries([...node.entries].map(([key, entry]) => [key, nodeValue(entry.node)]));
}
