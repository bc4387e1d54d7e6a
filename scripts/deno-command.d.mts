/** The program of the `deno` package, or undefined when it is not installed or has none for this system. */
export function denoProgram(): string | undefined;
/** Deno's arguments before the entry file. */
export const denoArguments: readonly string[];
