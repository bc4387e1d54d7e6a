import { Type, type Static } from '../../core/pipeline/plugin.ts';
import type { McpCapability, McpCapabilityType } from '../../core/ports/record-kinds.ts';
import { CapabilityType } from './mcp-capability-record.ts';
import { nearest } from './nearest.ts';
import { refusedBody, type BodyMistake } from './refused-body.ts';
import { strict } from './text-schema.ts';

/** Mistakes that one answer lists; each with a suggestion is looked for among all names. */
const maxMistakes = 20;
const comparedLength = 64;

const GivenCapability = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 1024, description: 'As the server calls it.' }),
    type: CapabilityType,
    enabled: Type.Boolean(),
  },
  strict,
);

/** Switches capabilities on and off; what is not named stays. */
export const CapabilitiesBody = Type.Object(
  { capabilities: Type.Array(GivenCapability, { minItems: 1, maxItems: 4000 }) },
  strict,
);

/** Which capability is meant: names are unique within a type. */
export function capabilityKey({ type, name }: { readonly type: McpCapabilityType; readonly name: string }) {
  return `${type} ${name}`;
}

/**
 * What a body says of capabilities, by their keys. Throws `invalid_request`, with the nearest name, for one that the
 * server does not offer, for one that is there twice, and for what `refusal` says of one.
 */
export function givenCapabilities(
  given: readonly Static<typeof GivenCapability>[],
  offered: readonly McpCapability[],
  refusal: (one: Static<typeof GivenCapability>, offered: McpCapability) => string | undefined = () =>
    undefined,
): ReadonlyMap<string, boolean> {
  const known = new Map(offered.map((one) => [capabilityKey(one), one]));
  const said = new Map<string, boolean>();
  const mistakes: BodyMistake[] = [];
  for (const [index, one] of given.entries()) {
    if (mistakes.length === maxMistakes) break;
    const path = `/capabilities/${index}`;
    const key = capabilityKey(one);
    const found = known.get(key);
    if (found === undefined) mistakes.push({ path: `${path}/name`, message: unknownName(one, offered) });
    else if (said.has(key)) mistakes.push({ path: `${path}/name`, message: 'is there twice; keep one' });
    else {
      const message = refusal(one, found);
      if (message !== undefined) mistakes.push({ path: `${path}/enabled`, message });
    }
    said.set(key, one.enabled);
  }
  if (mistakes.length > 0) throw refusedBody(mistakes);
  return said;
}

function unknownName(
  { name, type }: Static<typeof GivenCapability>,
  offered: readonly McpCapability[],
): string {
  const names = offered.filter((one) => one.type === type).map((one) => one.name.slice(0, comparedLength));
  const near = nearest(name.slice(0, comparedLength), names);
  const kind = type.replace('_', ' ');
  if (near !== undefined) return `names no ${kind} of the server; did you mean "${near}"?`;
  const others = offered.find((one) => one.name === name);
  if (others !== undefined)
    return `names no ${kind} of the server, but a ${others.type.replace('_', ' ')}; correct its type`;
  return `names no ${kind} that the server offered when it was last asked; its /capabilities lists them, its /metadata?refresh=true asks again`;
}
