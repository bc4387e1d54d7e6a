import { importShared } from './import-tests.ts';

await importShared('management', 1);
