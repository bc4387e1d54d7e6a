/** Ends an export for good: trying again would not help. The message is shown to people. */
export class ExportFailure extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'ExportFailure';
  }
}
