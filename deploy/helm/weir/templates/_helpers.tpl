{{- define "weir.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Room for the suffixes and for the number of a pod. */}}
{{- define "weir.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 45 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "weir.name" . -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 45 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "weir.selector" -}}
app.kubernetes.io/name: {{ include "weir.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "weir.labels" -}}
{{ include "weir.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "weir.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository (default .Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "weir.secretName" -}}
{{- default (include "weir.fullname" .) .Values.secret.existingSecret -}}
{{- end -}}

{{- define "weir.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "weir.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "weir.kind" -}}
{{- ternary "StatefulSet" "Deployment" .Values.persistence.enabled -}}
{{- end -}}

{{/* The most replicas that there may be. */}}
{{- define "weir.mostReplicas" -}}
{{- ternary .Values.autoscaling.maxReplicas .Values.replicas .Values.autoscaling.enabled -}}
{{- end -}}

{{/* What the chart knows, and over it what `config` says. */}}
{{- define "weir.config" -}}
{{- $values := .Values -}}
{{- $resources := dict "url" (default "pglite:" $values.postgresql.url) -}}
{{- if $values.postgresql.url -}}
{{- $_ := set $resources "password" "${POSTGRES_PASSWORD}" -}}
{{- end -}}
{{- $analytics := dict "url" (default "chdb:" $values.clickhouse.url) -}}
{{- if $values.clickhouse.url -}}
{{- $_ := set $analytics "username" $values.clickhouse.username -}}
{{- $_ := set $analytics "password" "${CLICKHOUSE_PASSWORD}" -}}
{{- end -}}
{{- $storage := dict "resources" $resources "analytics" $analytics -}}
{{- if $values.redis.url -}}
{{- $_ := set $storage "counters" (dict "url" $values.redis.url) -}}
{{- end -}}
{{- if not $values.persistence.enabled -}}
{{/* The journal would take what is free on the disk of the node. */}}
{{- $_ := set $storage "journal" (dict "max_bytes" 2147483648) -}}
{{- end -}}
{{- $server := dict
  "port" 8787
  "host" "0.0.0.0"
  "workers" $values.workers
  "operations" $values.operations
  "drain_delay_ms" (mul $values.drain.delaySeconds 1000)
  "shutdown_timeout_ms" (mul $values.drain.timeoutSeconds 1000)
-}}
{{- $own := dict "version" 1 "server" $server "storage" $storage -}}
{{- mergeOverwrite $own (deepCopy $values.config) | toYaml -}}
{{- end -}}

{{/* Values that contradict each other: refused here, with the remedy, and not by pods that do not start. */}}
{{- define "weir.check" -}}
{{- $values := .Values -}}
{{- $config := include "weir.config" . | fromYaml -}}
{{- if gt (int (include "weir.mostReplicas" .)) 1 -}}
{{- if eq $config.storage.resources.url "pglite:" -}}
{{- fail "Several replicas share a PostgreSQL server: set postgresql.url, or replicas: 1 without autoscaling." -}}
{{- end -}}
{{- if eq $config.storage.analytics.url "chdb:" -}}
{{- fail "Several replicas share a ClickHouse server: set clickhouse.url, or replicas: 1 without autoscaling." -}}
{{- end -}}
{{- end -}}
{{- if and (not $values.persistence.enabled) (or (eq $config.storage.resources.url "pglite:") (eq $config.storage.analytics.url "chdb:")) -}}
{{- fail "The embedded stores are in the data folder: set persistence.enabled: true, or postgresql.url and clickhouse.url." -}}
{{- end -}}
{{- if and $values.autoscaling.enabled (gt (int $values.autoscaling.minReplicas) (int $values.autoscaling.maxReplicas)) -}}
{{- fail "autoscaling.minReplicas is more than autoscaling.maxReplicas." -}}
{{- end -}}
{{- $server := $config.server -}}
{{- if or (ne (int $server.port) 8787) (ne (int $server.drain_delay_ms) (int (mul $values.drain.delaySeconds 1000))) (ne (int $server.shutdown_timeout_ms) (int (mul $values.drain.timeoutSeconds 1000))) -}}
{{- fail "config.server.port stays 8787 here, and the end of a pod is set by drain.delaySeconds and drain.timeoutSeconds." -}}
{{- end -}}
{{- $wanted := list "WEIR_ADMIN_KEY" "WEIR_SECRET_KEY" -}}
{{- if $values.postgresql.url -}}{{- $wanted = append $wanted "POSTGRES_PASSWORD" -}}{{- end -}}
{{- if $values.clickhouse.url -}}{{- $wanted = append $wanted "CLICKHOUSE_PASSWORD" -}}{{- end -}}
{{- if contains "${REDIS_PASSWORD}" $values.redis.url -}}{{- $wanted = append $wanted "REDIS_PASSWORD" -}}{{- end -}}
{{- if not $values.secret.existingSecret -}}
{{- range $wanted -}}
{{- if not (index $values.secret.values .) -}}
{{- fail (printf "%s is missing: set secret.existingSecret to the name of a Secret that has it, or secret.values.%s." . .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "weir.podTemplate" -}}
{{- include "weir.check" . -}}
{{- $config := include "weir.config" . | fromYaml -}}
metadata:
  labels:
    {{- include "weir.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # What is read at the start alone; the rest of the configuration is read while a pod runs.
    checksum/restart: {{ list $config.server $config.storage $config.telemetry | toJson | sha256sum }}
    {{- if not .Values.secret.existingSecret }}
    checksum/secret: {{ toJson .Values.secret.values | sha256sum }}
    {{- end }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "weir.serviceAccountName" . }}
  automountServiceAccountToken: {{ .Values.serviceAccount.automountToken }}
  # Variables of a Service that is called weir would begin with WEIR_.
  enableServiceLinks: false
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  terminationGracePeriodSeconds: {{ add .Values.drain.delaySeconds .Values.drain.timeoutSeconds 20 }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    # The gateway sets the modes within its folder; another start must not open them again.
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: { type: RuntimeDefault }
  initContainers:
    - name: first-start
      image: {{ include "weir.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      command:
        - node
        - --input-type=module
        - --eval
        - {{ .Files.Get "files/first-start.mjs" | toJson }}
      env:
        - { name: WEIR_DATA, value: /var/lib/weir/data }
        {{- if .Values.identity.existingSecret }}
        - { name: WEIR_FIRST_IDENTITY, value: /identity/identity.json }
        {{- else if .Values.postgresql.url }}
        - { name: WEIR_WAIT_FOR, value: {{ .Values.postgresql.url | quote }} }
        {{- end }}
      securityContext: {{- include "weir.containerSecurity" . | nindent 8 }}
      resources:
        requests: { cpu: 50m, memory: 64Mi }
        limits: { memory: 256Mi }
      volumeMounts:
        - { name: data, mountPath: /var/lib/weir }
        {{- if .Values.identity.existingSecret }}
        - { name: identity, mountPath: /identity, readOnly: true }
        {{- end }}
  containers:
    - name: weir
      image: {{ include "weir.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      ports:
        - { name: http, containerPort: 8787, protocol: TCP }
      envFrom:
        - secretRef: { name: {{ include "weir.secretName" . }} }
      env:
        # A folder of the gateway's own within the volume, which belongs to root.
        - { name: WEIR_DATA, value: /var/lib/weir/data }
        {{- with .Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      # The embedded engines take longest at their first start.
      startupProbe:
        httpGet: { path: /healthz, port: http }
        periodSeconds: 2
        timeoutSeconds: 3
        failureThreshold: 150
      # The gateway's own watchdog (server.watchdog_ms) ends a process that stands still long before.
      livenessProbe:
        httpGet: { path: /healthz, port: http }
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      # No preStop: after SIGTERM this page says 503, and the gateway goes on serving for drain.delaySeconds.
      readinessProbe:
        httpGet: { path: /readyz, port: http }
        periodSeconds: 2
        timeoutSeconds: 2
        failureThreshold: 2
      securityContext: {{- include "weir.containerSecurity" . | nindent 8 }}
      resources: {{- toYaml .Values.resources | nindent 8 }}
      volumeMounts:
        # The folder and not the file: files mounted by themselves never change.
        - { name: config, mountPath: /etc/weir, readOnly: true }
        - { name: data, mountPath: /var/lib/weir }
        - { name: tmp, mountPath: /tmp }
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: config
      configMap: { name: {{ include "weir.fullname" . }} }
    - name: tmp
      emptyDir: { sizeLimit: 1Gi }
    {{- if not .Values.persistence.enabled }}
    - name: data
      emptyDir: {}
    {{- end }}
    {{- with .Values.identity.existingSecret }}
    - name: identity
      secret: { secretName: {{ . }} }
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  topologySpreadConstraints:
    {{- if .Values.topologySpreadConstraints }}
    {{- toYaml .Values.topologySpreadConstraints | nindent 4 }}
    {{- else }}
    {{- $labels := include "weir.selector" . }}
    {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
    - topologyKey: {{ . }}
      maxSkew: 1
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- $labels | nindent 10 }}
    {{- end }}
    {{- end }}
{{- end -}}

{{- define "weir.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}
