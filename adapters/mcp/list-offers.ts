import type { McpOffer } from '../../core/ports/mcp.ts';
import type { Spoken } from './conversation.ts';
import type { McpLimits } from './mcp-limits.ts';
import { fittingMembers, storableText } from './plain-json.ts';

/** The lists of the protocol, in the order in which they are asked for. `key` tells apart those of one name. */
const lists = [
  { type: 'tool', announced: 'tools', method: 'tools/list', member: 'tools', key: 'name' },
  { type: 'prompt', announced: 'prompts', method: 'prompts/list', member: 'prompts', key: 'name' },
  { type: 'resource', announced: 'resources', method: 'resources/list', member: 'resources', key: 'uri' },
  {
    type: 'resource_template',
    announced: 'resources',
    method: 'resources/templates/list',
    member: 'resourceTemplates',
    key: 'uriTemplate',
  },
] as const;

type OfferList = (typeof lists)[number];

/** One thing of a list, as the library has checked it. */
type Listed = Readonly<Record<string, unknown>> & { readonly name: string };

/** Everything that a server offers, and what of it was left out, in words for the log. */
export interface ListedOffers {
  readonly offers: readonly McpOffer[];
  readonly leftOut: readonly string[];
}

/** Asks for every list that the server's capabilities announce, one after the other. */
export async function listOffers(spoken: Spoken, limits: McpLimits): Promise<ListedOffers> {
  const announced = spoken.client.getServerCapabilities() ?? {};
  const offers: McpOffer[] = [];
  const leftOut: string[] = [];
  for (const list of lists) {
    if (announced[list.announced] === undefined) continue;
    const items = await itemsOf(list, spoken, limits, leftOut);
    for (const offer of offersOf(list, items, limits, leftOut)) offers.push(offer);
  }
  return { offers, leftOut };
}

async function itemsOf(
  list: OfferList,
  spoken: Spoken,
  { maxOffers, maxPages }: McpLimits,
  leftOut: string[],
): Promise<readonly Listed[]> {
  const items: Listed[] = [];
  const cursors = new Set<string>();
  let cursor: string | undefined;
  for (;;) {
    const page = await pageOf(list, spoken, cursor);
    items.push(...page.items);
    cursor = page.nextCursor;
    if (cursor === undefined) break;
    if (cursors.has(cursor) || cursors.size + 1 === maxPages || items.length >= maxOffers) {
      leftOut.push(`${list.member}: the pages after the first ${items.length}`);
      break;
    }
    cursors.add(cursor);
  }
  if (items.length > maxOffers) leftOut.push(`${list.member}: ${items.length - maxOffers} over ${maxOffers}`);
  return items.slice(0, maxOffers);
}

// `client.listTools` is not used: it compiles the schemas of answers, which somebody else wrote, into code.
async function pageOf(
  { method, member }: OfferList,
  { client, library }: Spoken,
  cursor: string | undefined,
): Promise<{ readonly items: readonly Listed[]; readonly nextCursor: string | undefined }> {
  try {
    const request = { method, params: cursor === undefined ? {} : { cursor } };
    const result: Readonly<Record<string, unknown>> & { readonly nextCursor?: string | undefined } =
      await client.request(request, library.listSchemas[method]);
    return { items: result[member] as readonly Listed[], nextCursor: result.nextCursor };
  } catch (error) {
    // Templates are not announced by themselves.
    if (error instanceof library.McpError && error.code === Number(library.methodNotFound)) {
      return { items: [], nextCursor: undefined };
    }
    throw error;
  }
}

/** Names are made unique: resources that share one go by their addresses; of tools and prompts, the first has it. */
function offersOf(
  { type, member, key }: OfferList,
  items: readonly Listed[],
  { maxDescribedBytes, maxNameLength }: McpLimits,
  leftOut: string[],
): readonly McpOffer[] {
  const shared = sharedNames(items);
  const offers = new Map<string, McpOffer>();
  let members = 0;
  for (const item of items) {
    const { name: given, ...others } = item;
    const isShared = key !== 'name' && shared.has(given);
    const name = storableText(isShared ? String(item[key]) : given);
    if (name === '' || name.length > maxNameLength || offers.has(name)) continue;
    const described = fittingMembers(isShared ? item : others, maxDescribedBytes);
    members += described.leftOut;
    offers.set(name, { type, name, described: described.kept });
  }
  const nameless = items.length - offers.size;
  if (nameless > 0) leftOut.push(`${member}: ${nameless} whose names are empty, too long or taken`);
  if (members > 0) leftOut.push(`${member}: ${members} members that are too large`);
  return [...offers.values()];
}

function sharedNames(items: readonly Listed[]): ReadonlySet<string> {
  const seen = new Set<string>();
  const shared = new Set<string>();
  for (const { name } of items) (seen.has(name) ? shared : seen).add(name);
  return shared;
}
