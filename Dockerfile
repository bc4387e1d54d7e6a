# The gateway with its embedded stores. A build argument leaves the embedded engines out (about 500 MB):
#   docker build --build-arg EMBEDDED=false -t weir:0.1.0 .
# Debian, not Alpine: the embedded analytics engine needs glibc.
ARG NODE_IMAGE=node:20.20.2-bookworm-slim@sha256:2cf067cfed83d5ea958367df9f966191a942351a2df77d6f0193e162b5febfc0

FROM ${NODE_IMAGE} AS packages
ARG EMBEDDED=true
WORKDIR /opt/weir
COPY package.json package-lock.json ./
# Not `npm ci --omit=optional`: the compiler that runs the sources (esbuild) is an optional package as well.
RUN npm ci --omit=dev --no-audit --no-fund \
  && if [ "${EMBEDDED}" = "false" ]; then rm -rf node_modules/chdb node_modules/@chdb; fi \
  && npm cache clean --force

FROM ${NODE_IMAGE} AS console
WORKDIR /opt/weir
COPY scripts/build-console.mjs ./scripts/
COPY plugins/console/app ./plugins/console/app
RUN node scripts/build-console.mjs && npm cache clean --force

FROM ${NODE_IMAGE} AS runtime
# A fixed number, so that the owner of a mounted folder can be set from outside (chown 10001).
RUN groupadd --gid 10001 weir \
  && useradd --uid 10001 --gid weir --no-create-home --home-dir /var/lib/weir --shell /usr/sbin/nologin weir \
  && install -d -o weir -g weir -m 0700 /var/lib/weir \
  && install -d -m 0755 /etc/weir
ENV NODE_ENV=production \
  WEIR_CONFIG=/etc/weir/gateway.config.yaml \
  WEIR_DATA=/var/lib/weir \
  WEIR_HOST=0.0.0.0
WORKDIR /opt/weir
COPY --from=packages /opt/weir/node_modules ./node_modules
COPY package.json package-lock.json tsconfig.json main.ts ./
COPY main ./main
COPY core ./core
COPY plugins ./plugins
COPY adapters ./adapters
COPY storage ./storage
COPY scripts/healthcheck.mjs scripts/runtime-flags.mjs scripts/weir.mjs scripts/supervise.mjs scripts/run.mjs scripts/built-sources.mjs ./scripts/
# Makes what is run of the sources: who runs the gateway may not write here.
RUN node scripts/run.mjs --help
COPY --from=console /opt/weir/dist/console ./dist/console
COPY gateway.config.yaml /etc/weir/gateway.config.yaml
VOLUME ["/var/lib/weir"]
EXPOSE 8787
USER 10001:10001
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["node", "/opt/weir/scripts/healthcheck.mjs"]
STOPSIGNAL SIGTERM
# The process itself, no shell and no npm before it: SIGTERM arrives. The flags are those of scripts/runtime-flags.mjs.
CMD ["node", "--max-semi-space-size=64", "--initial-old-space-size=256", "--no-allocation-site-pretenuring", "--no-parallel-scavenge", "--max-inlined-bytecode-size=1500", "--max-inlined-bytecode-size-cumulative=4000", "--gc-memory-reducer-start-delay-ms=300000", "scripts/run.mjs", "start"]
