// For a container's HEALTHCHECK: ends with 0 when the gateway answers /healthz. Uses Node alone, because the image has
// no curl.
const port = process.env.PORT || '8787';
const named = process.env.WEIR_HOST ?? '';
const host = ['', '0.0.0.0', '::'].includes(named) ? '127.0.0.1' : named;
const address = `http://${host.includes(':') ? `[${host}]` : host}:${port}/healthz`;
try {
  const response = await fetch(address, { signal: AbortSignal.timeout(3000) });
  if (!response.ok) throw new Error(`it answered with status ${response.status}`);
} catch (error) {
  console.error(`${address}: ${error.cause?.message ?? error.message}`);
  process.exitCode = 1;
}
