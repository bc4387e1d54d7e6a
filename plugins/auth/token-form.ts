const form = /^eyJ[\w-]+\.[\w-]+\.[\w-]*$/;

/**
 * Whether this is written like a JSON Web Token: three parts in base64url, the first of which begins a JSON object.
 * One with an empty signature is written like one too, and refused for that.
 */
export function isTokenForm(text: string): boolean {
  return text.startsWith('eyJ') && form.test(text);
}
