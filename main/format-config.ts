// Composition root: `weir fmt`.
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { parseDocument } from 'yaml';
import { replaceText } from '../core/base/durable-file.ts';
import { messageOf } from '../core/errors/gateway-error.ts';

const lineWidth = 110;

/**
 * `weir fmt`: writes YAML files as Prettier does, with lines of at most 110 characters; keys, comments and values stay what
 * they are. With `isCheck` it changes nothing and names the files that it would change.
 * Returns the exit code.
 */
export async function formatConfig(files: readonly string[], isCheck: boolean): Promise<number> {
  let code = 0;
  for (const file of files) {
    const shown = path.relative('', file) || file;
    try {
      const text = await readFile(file, 'utf8');
      const formatted = await formatYaml(text, file);
      if (formatted === text) continue;
      if (isCheck) {
        console.log(`${shown} is not formatted; run "weir fmt ${shown}".`);
        code = 1;
      } else {
        await replaceText(file, formatted);
        console.log(`${shown} is formatted.`);
      }
    } catch (error) {
      console.error(`${shown}: ${messageOf(error)}`);
      code = 1;
    }
  }
  return code;
}

/** Options of the folder's own `.prettierrc` or `.editorconfig` win. Throws a sentence when the text is no YAML. */
async function formatYaml(text: string, file: string): Promise<string> {
  const { format, resolveConfig } = await import('prettier');
  const own = await resolveConfig(file, { editorconfig: true });
  const [fault] = parseDocument(text, { version: '1.2' }).errors;
  if (fault !== undefined)
    throw new Error(`${fault.message.split('\n')[0] ?? ''} "weir check" says more, and nothing is changed.`);
  return format(text, { printWidth: lineWidth, ...own, parser: 'yaml' });
}
