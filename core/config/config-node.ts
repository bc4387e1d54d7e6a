/** A file of the configuration. */
export interface ConfigFile {
  /** Absolute path. */
  readonly path: string;
  /** Display name: the main file as given, included ones relative to it. For messages. */
  readonly name: string;
}

/** Start of a node. Lines and columns count from 1, columns in UTF-16 units as in editors. */
export interface NodePlace {
  readonly file: ConfigFile;
  readonly line: number;
  readonly column: number;
}

/** Placeholders from which a text was assembled. */
export interface Origin {
  /** The placeholders without their defaults, for messages: `${OPENAI_API_KEY}`. */
  readonly names: readonly string[];
  /** True for a text that is a single placeholder. */
  readonly whole: boolean;
  /** False when a variable or file was missing; that is reported already. */
  readonly resolved: boolean;
}

/** Value of a YAML scalar; dates and other tagged values stay text. */
type ScalarValue = string | number | boolean | null;

/** A single value: text, number, boolean or null. */
export interface ScalarNode {
  readonly kind: 'scalar';
  readonly place: NodePlace;
  readonly value: ScalarValue;
  readonly origin?: Origin;
}

/** A key of an object with its value. */
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

/** The configuration as written, with places: the YAML after parsing. */
export type ConfigNode = ScalarNode | MapNode | ListNode;

/** The plain value of a node. */
export function nodeValue(node: ConfigNode): unknown {
  if (node.kind === 'scalar') return node.value;
  if (node.kind === 'list') return node.items.map(nodeValue);
  return Object.fromEntries([...node.entries].map(([key, entry]) => [key, nodeValue(entry.node)]));
}
