import { describe } from 'node:test';
import type { Resources } from '../../core/ports/resources.ts';
import { recordingLog, testClock } from '../embedded/chdb-fixture.ts';
import { resourcesConformance, type ResourcesUnderTest } from '../../tests/conformance/resources.ts';
import { startEngine, type EngineKind } from '../../tests/kit/postgres-kit.ts';
import { postgresMissing } from '../../tests/kit/postgres-server.ts';
import { openDatabase } from './open-database.ts';
import { createResources } from './resources.ts';

async function open(kind: EngineKind): Promise<ResourcesUnderTest> {
  const engine = await startEngine(kind);
  const log = recordingLog();
  const instance = async (): Promise<Resources> => {
    const database = await openDatabase({ place: engine.place, log, clock: testClock });
    return createResources({ database, clock: testClock, log });
  };
  const resources = await instance();
  const other = kind === 'server' ? await instance() : undefined;
  return {
    resources,
    ...(other !== undefined && { other }),
    async close() {
      await resources.close();
      await other?.close();
      await engine.close();
    },
  };
}

resourcesConformance('embedded resources', () => open('embedded'));
describe('a real server', { skip: postgresMissing }, () => {
  resourcesConformance('resources on a server', () => open('server'));
});
