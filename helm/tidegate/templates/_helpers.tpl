{{- define "tidegate.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "tidegate.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "tidegate.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "tidegate.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "tidegate.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "tidegate.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "tidegate.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{ include "tidegate.selector" . }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "tidegate.selector" -}}
app.kubernetes.io/name: {{ include "tidegate.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- /* Of a service's image: registry/repository@digest, or :tag, by default the chart's. */ -}}
{{- define "tidegate.image" -}}
{{- $image := .image -}}
{{- if $image.digest -}}
{{- printf "%s%s@%s" .root.Values.imageRegistry $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s%s:%s" .root.Values.imageRegistry $image.repository (default .root.Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{- /* A pipeline's file: its configuration, its name, and references to its passwords where the chart mounts them. */ -}}
{{- define "tidegate.config" -}}
{{- $config := deepCopy .config -}}
{{- $_ := set $config "pipeline" .name -}}
{{- $keys := default dict .secretKeys -}}
{{- $folder := printf "/run/tidegate/%s" .name -}}
{{- if $keys.source -}}{{- $_ := set $config.source "password" (printf "${file:%s/source}" $folder) -}}{{- end -}}
{{- if $keys.redis -}}{{- $_ := set $config.redis "password" (printf "${file:%s/redis}" $folder) -}}{{- end -}}
{{- if $keys.kafka -}}{{- $_ := set (get $config.kafka "security") "password" (printf "${file:%s/kafka}" $folder) -}}{{- end -}}
{{- $known := list -}}{{- range $config.sinks -}}{{- $known = append $known .name -}}{{- end -}}
{{- range $sink, $_ := default dict $keys.sinks -}}
{{- if not (has $sink $known) -}}{{- fail (printf "pipeline %s: secretKeys.sinks has a key for %s, and its sinks are %s." $.name $sink (join ", " $known)) -}}{{- end -}}
{{- end -}}
{{- range $sink := $config.sinks -}}
{{- if hasKey (default dict $keys.sinks) $sink.name -}}
{{- $options := default dict $sink.options -}}
{{- $_ := set $options "password" (printf "${file:%s/sink-%s}" $folder $sink.name) -}}
{{- $_ := set $sink "options" $options -}}
{{- end -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{- /* The secret's keys that a service (`component`) needs, as files; nothing else of it is mounted. */ -}}
{{- define "tidegate.secretItems" -}}
{{- $keys := default dict .pipeline.secretKeys -}}
{{- $component := .component -}}
{{- range $section := .sections -}}
{{- $key := get $keys $section -}}
{{- if and (ne $section "sinks") (kindIs "map" $key) -}}{{- $key = get $key $component -}}{{- end -}}
{{- if and $key (eq $section "sinks") }}
{{- range $sink, $name := $key }}
- {key: {{ $name | quote }}, path: sink-{{ $sink }}, mode: 0440}
{{- end }}
{{- else if $key }}
- {key: {{ $key | quote }}, path: {{ $section }}, mode: 0440}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* An upgrade that leaves a pipeline out would leave its slot at the source, and nobody to see what it keeps there. */ -}}
{{- define "tidegate.refuseForgotten" -}}
{{- $known := .Values.retired -}}
{{- range .Values.pipelines -}}{{- $known = append $known .name -}}{{- end -}}
{{- range dig "items" list (lookup "v1" "ConfigMap" .Release.Namespace "") -}}
{{- $labels := default dict .metadata.labels -}}
{{- $name := get $labels "tidegate.io/pipeline" -}}
{{- if and $name (eq (get $labels "app.kubernetes.io/instance") $.Release.Name) (not (has $name $known)) -}}
{{- fail (printf "pipeline %s is left out: its slot would stay at the source and keep WAL until the disk is full. Pause it (paused: true) and upgrade, drop the slot with `tidegate slot drop`, then leave it out and write retired: [%s]." $name $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The folder of a pipeline's passwords, as a volume called `name`. A pod that needs none of them gets no volume: one
without items would hold all that the secret has. */ -}}
{{- define "tidegate.secretVolume" -}}
{{- with include "tidegate.secretItems" . }}
- name: {{ $.name }}
  secret:
    secretName: {{ $.pipeline.existingSecret }}
    items:
      {{- . | nindent 6 }}
{{- end }}
{{- end -}}

{{- define "tidegate.secretMount" -}}
{{- if include "tidegate.secretItems" . }}
- {name: {{ .name }}, mountPath: /run/tidegate/{{ .pipeline.name }}, readOnly: true}
{{- end }}
{{- end -}}

{{- /* Whether a pipeline's lanes run in executors: "yes" or nothing. */ -}}
{{- define "tidegate.hasExecutors" -}}
{{- if hasPrefix "k8s://" (dig "processor" "master" "local" .config) -}}yes{{- end -}}
{{- end -}}

{{- /* Whether any does. */ -}}
{{- define "tidegate.anyHasExecutors" -}}
{{- range .Values.pipelines -}}{{- include "tidegate.hasExecutors" . -}}{{- end -}}
{{- end -}}

{{- /* Ports that pipelines reach, as their configurations name them, beside those that the values add: of `kind`. */ -}}
{{- define "tidegate.ports" -}}
{{- $ports := get .root.Values.networkPolicy.ports .kind | default list -}}
{{- range $pipeline := .root.Values.pipelines -}}
{{- range include (printf "tidegate.addresses.%s" $.kind) $pipeline.config | fromJsonArray -}}
{{- $named := regexFind ":[0-9]+([/?#]|$)" .address | trimPrefix ":" | trimAll "/?#" -}}
{{- $ports = append $ports (int (default .usual $named)) -}}
{{- end -}}
{{- end -}}
{{- $ports | uniq | toJson -}}
{{- end -}}

{{- define "tidegate.addresses.source" -}}
{{- $given := default (printf ":%d" (int (default 5432 .source.port))) .source.dsn -}}
{{- list (dict "address" $given "usual" 5432) | toJson -}}
{{- end -}}

{{- define "tidegate.addresses.kafka" -}}
{{- $found := list -}}
{{- range splitList "," .kafka.bootstrap -}}{{- $found = append $found (dict "address" (trim .) "usual" 9092) -}}{{- end -}}
{{- $found | toJson -}}
{{- end -}}

{{- define "tidegate.addresses.redis" -}}
{{- list (dict "address" .redis.url "usual" 6379) | toJson -}}
{{- end -}}

{{- define "tidegate.addresses.sinks" -}}
{{- $found := list -}}
{{- range .sinks -}}
{{- with dig "options" "dsn" "" . -}}{{- $found = append $found (dict "address" . "usual" 5432) -}}{{- end -}}
{{- end -}}
{{- $found | toJson -}}
{{- end -}}

{{- define "tidegate.addresses.tracing" -}}
{{- $endpoint := dig "endpoint" "" (default dict .tracing) -}}
{{- $found := list -}}
{{- if $endpoint -}}
{{- $found = append $found (dict "address" $endpoint "usual" (ternary 443 80 (hasPrefix "https:" $endpoint))) -}}
{{- end -}}
{{- $found | toJson -}}
{{- end -}}

{{- define "tidegate.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "tidegate.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "tidegate.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 2
  failureThreshold: {{ .startup }}
# Of this process alone: a restart never mends Kafka, Redis or PostgreSQL.
livenessProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: http}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end -}}

{{- define "tidegate.scheduling" -}}
{{- range $key := list "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" }}
{{- with get $.settings $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with .settings.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}
