/** The program of the `deno` package, or undefined when it is not installed or has none for this system. */
export function denoProgram(): string | undefined;
/** Deno's arguments before the file that it runs. */
export const denoArguments: readonly string[];
