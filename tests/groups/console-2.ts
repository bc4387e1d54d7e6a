import { importShared } from './import-tests.ts';

await importShared('console', 2);
