import { groups } from '../../scripts/test-groups.mjs';
import { importTests } from './import-tests.ts';

await importTests(groups.rules);
