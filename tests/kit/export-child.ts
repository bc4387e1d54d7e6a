/** A process that begins an export and waits, at the place that is named, to be killed. */
import { createFileBlobs } from '../../storage/blobs/file-blobs.ts';
import type { Blobs } from '../../core/ports/exports.ts';
import { createLogExports } from '../../core/administration/exports/log-exports.ts';
import { exportPlace, exportRecord, ExportRecords, ManyLogs } from './export-kit.ts';

const [directory = '', at = ''] = process.argv.slice(2);
const store = createFileBlobs(directory);
let manifests = 0;

function wait(): Promise<never> {
  process.stdout.write('ready to be killed\n');
  return new Promise(() => setInterval(() => undefined, 60_000));
}

const blobs: Blobs = {
  ...store,
  async write(name, content, options) {
    const isManifest = name.endsWith('manifest.json');
    if (isManifest && at === 'between a part and its manifest' && manifests === 1) return wait();
    if (name.endsWith('.jsonl') && at === 'while the file is put together') {
      const some = async function* () {
        for await (const chunk of content as AsyncIterable<Uint8Array>) {
          yield chunk;
          await wait();
        }
      };
      return store.write(name, some(), options);
    }
    const bytes = await store.write(name, content, options);
    if (isManifest) manifests += 1;
    if (isManifest && at === 'between parts' && manifests === 2) return wait();
    return bytes;
  },
};
const records = new ExportRecords(exportRecord());
const place = exportPlace({ analytics: new ManyLogs(9000, 3000), resources: records.resources, blobs });
createLogExports(place);
await place.jobs.run('exports.run', { organisationId: 'org-1', exportId: 'export-1', run: 1 });
