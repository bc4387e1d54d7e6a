import net from 'node:net';
import tls from 'node:tls';

// Made for tests and used nowhere else: an authority, a certificate for 127.0.0.1 that it signed, and an authority
// that signed nothing.
const key = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgUNNfSS6rHsTzkOEb
pTWX41tqX/vw+F/UquEJMxbD6I6hRANCAASgxgK5m6bvNc6leMwuLqdLQCjflujH
X5mATUbA4Xhj6GW4KNwfyqPgYicPQg+XxQ2dirflaAjNt9L8SweTpK3b
-----END PRIVATE KEY-----`;
const certificate = `-----BEGIN CERTIFICATE-----
MIIBiTCCAS6gAwIBAgIUVkpt98kh4GQj0N/wBcnhREy7grYwCgYIKoZIzj0EAwIw
EjEQMA4GA1UEAwwHdGVzdCBjYTAgFw0yNjExMjExMzA4MzNaGA8yMTI2MTAyODEz
MDgzM1owFDESMBAGA1UEAwwJMTI3LjAuMC4xMFkwEwYHKoZIzj0CAQYIKoZIzj0D
AQcDQgAEoMYCuZum7zXOpXjMLi6nS0Ao35box1+ZgE1GwOF4Y+hluCjcH8qj4GIn
D0IPl8UNnYq35WgIzbfS/EsHk6St26NeMFwwDwYDVR0RBAgwBocEfwAAATAJBgNV
HRMEAjAAMB0GA1UdDgQWBBSdtNEfoNKIlC5oIQTuw0mFqUmk3jAfBgNVHSMEGDAW
gBQ4IsmmWayFnflfdj+POrjMVGUS5zAKBggqhkjOPQQDAgNJADBGAiEA+DIKAw4x
FTlUVya8a77qtRTByHu89PgUUlFrwmWZiT0CIQDQ+OKSMS+BQZ1nsUMIyeA/9DWo
wpIWTfxp0H4UWR154A==
-----END CERTIFICATE-----`;
/** The authority that signed the certificate of `startFront`. */
export const testAuthority = `-----BEGIN CERTIFICATE-----
MIIBezCCASGgAwIBAgIUc131xHjhb89FEuRwIZwIp+41/Y0wCgYIKoZIzj0EAwIw
EjEQMA4GA1UEAwwHdGVzdCBjYTAgFw0yNjExMjExMzA4MzNaGA8yMTI2MTAyODEz
MDgzM1owEjEQMA4GA1UEAwwHdGVzdCBjYTBZMBMGByqGSM49AgEGCCqGSM49AwEH
A0IABJgWroHvSuwPCP2f8d+YbyBmfEKz0mrHYQF5WTenSbfF7T3FmKPo5fICqabi
IGaOw63LDLFelWhAYiyDMQ/oukajUzBRMB0GA1UdDgQWBBQ4IsmmWayFnflfdj+P
OrjMVGUS5zAfBgNVHSMEGDAWgBQ4IsmmWayFnflfdj+POrjMVGUS5zAPBgNVHRMB
Af8EBTADAQH/MAoGCCqGSM49BAMCA0gAMEUCIQC8IjtyOKWqceCmNhDXzr56GmLn
mdTKgBzV+vmf/q+/yQIgMQVie+oj37f89qBiTXbUr5vRx64jTKW6o53pbwryJRY=
-----END CERTIFICATE-----
`;
/** An authority that signed nothing. */
export const otherAuthority = `-----BEGIN CERTIFICATE-----
MIIBgDCCASegAwIBAgIUVhc7/huCbaim7LRZquMrEqtGuHMwCgYIKoZIzj0EAwIw
FTETMBEGA1UEAwwKdGVzdCBvdGhlcjAgFw0yNjExMjExMzA4MzNaGA8yMTI2MTAy
ODEzMDgzM1owFTETMBEGA1UEAwwKdGVzdCBvdGhlcjBZMBMGByqGSM49AgEGCCqG
SM49AwEHA0IABO2F+wYxBPQJsLKVFRn8kMKvVUuR95qnYJz+aIu69nesICPMgflk
m9DbuhQ30qy1gcq5C0vxc7FNdVW0ALb+Pv+jUzBRMB0GA1UdDgQWBBSn8lEi/ApY
6NPPXNAYlamk1ti6sjAfBgNVHSMEGDAWgBSn8lEi/ApY6NPPXNAYlamk1ti6sjAP
BgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0cAMEQCIF8mdI3I4KFChA2Mo9vJ
JicWSPlaaI7GWpVu2eRj5nNOAiAU3zKIWquKXbmOeJTOYJbejHV4Galv+XZ/GblA
aMg4YA==
-----END CERTIFICATE-----
`;

/** A port in front of another one, which may end TLS and may be away. */
export interface Front {
  /** `http://127.0.0.1:PORT`, or `https://` when it ends TLS. */
  readonly url: string;
  /** Connections that it has taken, also while it was away. */
  readonly connections: number;
  /** Cuts all connections, and those that come, until it is told false. */
  away(isAway: boolean): void;
  close(): Promise<void>;
}

/** Listens on a free port of 127.0.0.1 and passes bytes to and from `port`. */
export async function startFront(
  port: number,
  options: { tls?: boolean; away?: boolean } = {},
): Promise<Front> {
  let isAway = options.away ?? false;
  let connections = 0;
  const open = new Set<net.Socket>();
  const keep = (socket: net.Socket): void => {
    open.add(socket);
    socket.on('error', () => undefined).once('close', () => open.delete(socket));
  };
  const pass = (client: net.Socket): void => {
    keep(client);
    const server = net.connect(port, '127.0.0.1');
    keep(server);
    client.pipe(server).pipe(client);
    client.once('close', () => server.destroy());
    server.once('close', () => client.destroy());
  };
  const secure = tls.createServer({ key, cert: certificate }, pass).on('tlsClientError', () => undefined);
  const listener = net.createServer((socket) => {
    connections += 1;
    keep(socket);
    if (isAway) socket.destroy();
    else if (options.tls === true) secure.emit('connection', socket);
    else pass(socket);
  });
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
  const cut = (): void => open.forEach((socket) => socket.destroy());
  return {
    url: `${options.tls === true ? 'https' : 'http'}://127.0.0.1:${(listener.address() as net.AddressInfo).port}`,
    get connections() {
      return connections;
    },
    away(next) {
      isAway = next;
      if (next) cut();
    },
    close() {
      cut();
      return new Promise((resolve) => listener.close(() => resolve()));
    },
  };
}
