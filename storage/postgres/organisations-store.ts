import { asc, eq } from 'drizzle-orm';
import type { OrganisationsReader, OrganisationsWriter } from '../../core/ports/resources.ts';
import type { Statements } from './database.ts';
import type { HeldCounters } from './held-counters.ts';
import { organisations } from './schema.ts';

/** Reads organisations with the statements of one transaction. */
export function organisationsReader(statements: Statements): OrganisationsReader {
  return {
    async byId(id) {
      const [found] = await statements.select().from(organisations).where(eq(organisations.id, id));
      return found;
    },
    async list() {
      return statements
        .select()
        .from(organisations)
        .orderBy(asc(organisations.createdAt), asc(organisations.id));
    },
  };
}

/** Writes the organisation whose counters are held. */
export function organisationsWriter(statements: Statements, held: HeldCounters): OrganisationsWriter {
  return {
    async ensure(record) {
      held.check(record.id);
      const added = await statements
        .insert(organisations)
        .values(record)
        .onConflictDoNothing()
        .returning({ id: organisations.id });
      if (added.length > 0) held.mark();
    },
  };
}
