import type { Resources } from '../../ports/resources.ts';
import type { AdministrationCommand } from './administration-arguments.ts';
import type { AdministrationTools } from './administration-tools.ts';

type Tools = Pick<AdministrationTools, 'atStore' | 'chainStart' | 'verifyChain' | 'print' | 'complain'>;

/** Runs `weir audit verify`: 1 when a chain is not as it was written. Rejects with a sentence for the operator. */
export function runAuditCommand(
  command: Extract<AdministrationCommand, { name: 'audit' }>,
  tools: Tools,
): Promise<number> {
  return tools.atStore(command, async (resources) => {
    const known = await chains(resources);
    const chosen = [...known].filter(([id]) => id === (command.organisation ?? id));
    if (command.organisation !== undefined && chosen.length === 0)
      throw new Error(`The store has no organisation "${command.organisation}".`);
    let code = 0;
    for (const [id, name] of chosen) {
      const verdict = await verify(resources, id, tools);
      const title = name === undefined ? id : `${id} (${name})`;
      if (verdict.fault === undefined) tools.print(`${title}: ${verdict.records} records, ok`);
      else {
        code = 1;
        tools.complain(`${title}: ${verdict.fault}`);
      }
    }
    if (chosen.length === 0) tools.print('The store has no organisation, and no audit trail.');
    return code;
  });
}

/** Every organisation with its name; those that have changes and no record of their own are there too. */
async function chains(
  resources: Pick<Resources, 'read' | 'changes'>,
): Promise<ReadonlyMap<string, string | undefined>> {
  const organisations = await resources.read((reader) => reader.organisations.list());
  const names = new Map<string, string | undefined>(organisations.map(({ id, name }) => [id, name]));
  for (const id of (await resources.changes()).keys()) if (!names.has(id)) names.set(id, undefined);
  return names;
}

interface Verdict {
  readonly records: number;
  /** Undefined when everything is as it was written. */
  readonly fault: string | undefined;
}

async function verify(
  resources: Pick<Resources, 'read'>,
  organisationId: string,
  { chainStart, verifyChain }: Tools,
): Promise<Verdict> {
  let last = chainStart;
  for (;;) {
    const { number } = last;
    // The end is read on the same view as the records: a gateway may be writing meanwhile.
    const { records, head } = await resources.read(async ({ audit }) => ({
      records: await audit.chain(organisationId, number),
      head: await audit.head(organisationId),
    }));
    const verdict = verifyChain(records, last);
    if (!verdict.ok) return { records: number, fault: verdict.reason };
    const end = records.at(-1);
    if (end === undefined) return { records: number, fault: endFault(last, head) };
    last = { number: end.number, hash: end.hash };
  }
}

function endFault(
  last: { readonly number: number; readonly hash: string },
  head: { readonly number: number; readonly hash: string },
): string | undefined {
  const { number } = last;
  if (number < head.number)
    return `record ${number + 1} and everything behind it, up to record ${head.number}, was removed`;
  if (number > head.number)
    return `record ${head.number + 1} was added behind the end that the store keeps, record ${head.number}`;
  return last.hash === head.hash
    ? undefined
    : `record ${number} is not the one that the store keeps as the end`;
}
