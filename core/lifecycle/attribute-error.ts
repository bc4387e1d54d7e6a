import { stackFrames, type StackFrame } from './stack-frames.ts';

/** Remembers which files are whose plugin's, to tell from a stack trace which plugin is at fault. */
export class PluginOrigins {
  readonly #owners = new Map<string, Set<string>>();

  /** Notes that these files (a bundle and its sources, absolute paths) belong to a plugin. */
  record(pluginName: string, files: readonly string[]): void {
    for (const file of files) {
      const owners = this.#owners.get(file);
      if (owners === undefined) this.#owners.set(file, new Set([pluginName]));
      else owners.add(pluginName);
    }
  }

  /**
   * The third-party plugin in whose code something was thrown, or undefined when its stack names none. A file that
   * several plugins share counts only when no other frame decides.
   */
  attribute(thrown: unknown): string | undefined {
    const owners = stackFrames(thrown).flatMap((frame) => this.#owners.get(frame.file) ?? []);
    const decisive = owners.find((names) => names.size === 1) ?? owners[0];
    return decisive?.values().next().value;
  }
}

/** The innermost frame of an error that lies in one of these files, or undefined. */
export function frameWithin(thrown: unknown, files: readonly string[]): StackFrame | undefined {
  return stackFrames(thrown).find((frame) => files.includes(frame.file));
}
