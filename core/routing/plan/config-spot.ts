import { quoted } from '../../base/word-list.ts';
import type { RouteConfigInput } from '../../organisation/route-config.ts';
import type { Refuse } from './check-node.ts';
import { placeText, type ConfigIssues, type ConfigPlace } from './config-issue.ts';

/** Where the walk over a config is. */
export interface Spot {
  /** In the whole tree: continues through references. */
  readonly path: ConfigPlace;
  readonly name: string | undefined;
  readonly weight: number;
  readonly depth: number;
  /** The configs that this spot is within, outermost first. */
  readonly slugs: readonly string[];
  /** The reference that led here, when the spot is within another config. */
  readonly reference: Reference | undefined;
}

/** A target that stands for another config. */
export interface Reference {
  readonly slug: string;
  /** Of the reference in the config that is compiled. */
  readonly place: ConfigPlace;
  /** Length of the tree's path at the beginning of the other config. */
  readonly start: number;
  /** The other config is a saved one, not the operator's. */
  readonly isSaved: boolean;
}

/** The spot of a target. */
export function spotOf(target: RouteConfigInput, index: number, parent: Spot): Spot {
  return {
    ...parent,
    path: [...parent.path, 'targets', index],
    name: target.name,
    weight: target.weight ?? 1,
    depth: parent.depth + 1,
  };
}

/** Takes what is wrong at a spot. Within another config the reference is the place, and the message names the rest. */
export function reporter(issues: ConfigIssues, { path, reference }: Spot): Refuse {
  if (reference === undefined) return (place, message) => issues.add([...path, ...place], message);
  const inside = path.slice(reference.start);
  return (place, message) =>
    issues.add(
      reference.place,
      `in the config ${quoted(reference.slug)}, ${placeText([...inside, ...place])}: ${message}`,
      reference.slug,
    );
}
