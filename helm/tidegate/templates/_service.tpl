{{- /* The Deployment of a reader or a processor: one pod, and never two of one pipeline at once. */ -}}
{{- define "tidegate.deployment" -}}
{{- $root := .root -}}
{{- $pipeline := .pipeline -}}
{{- $settings := .settings -}}
{{- $name := printf "%s-%s-%s" (include "tidegate.fullname" $root) $pipeline.name .component -}}
{{- $drives := and (eq .component "processor") (include "tidegate.hasExecutors" $pipeline) -}}
{{- $secrets := dict "pipeline" $pipeline "component" .component "sections" .sections "name" "secrets" -}}
{{- $spark := dict "root" $root "pipeline" $pipeline "settings" $settings "sections" .sections -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  labels:
    {{- include "tidegate.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
    tidegate.io/pipeline: {{ $pipeline.name }}
spec:
  replicas: {{ ternary 0 1 (default false $pipeline.paused) }}
  # One owner of a slot, one of a lane: the old pod is gone before the new one starts.
  strategy: {type: Recreate}
  revisionHistoryLimit: 5
  selector:
    matchLabels:
      {{- include "tidegate.selector" $root | nindent 6 }}
      app.kubernetes.io/component: {{ .component }}
      tidegate.io/pipeline: {{ $pipeline.name }}
  template:
    metadata:
      labels:
        {{- include "tidegate.labels" $root | nindent 8 }}
        app.kubernetes.io/component: {{ .component }}
        tidegate.io/pipeline: {{ $pipeline.name }}
        {{- with $settings.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      annotations:
        checksum/config: {{ include "tidegate.config" $pipeline | sha256sum }}
        {{- if $drives }}
        checksum/spark: {{ print (include "tidegate.sparkDefaults" $spark) (include "tidegate.executorPod" $spark) | sha256sum }}
        {{- end }}
        {{- with $settings.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      {{- if $drives }}
      # The driver asks for executors, and for nothing else.
      serviceAccountName: {{ include "tidegate.fullname" $root }}-driver
      automountServiceAccountToken: true
      {{- else }}
      serviceAccountName: {{ include "tidegate.serviceAccount" $root }}
      automountServiceAccountToken: false
      {{- end }}
      enableServiceLinks: false
      terminationGracePeriodSeconds: {{ $settings.terminationGracePeriodSeconds }}
      securityContext:
        {{- include "tidegate.podSecurity" $root | nindent 8 }}
      {{- include "tidegate.scheduling" (dict "settings" $settings "root" $root) | nindent 6 }}
      containers:
        - name: {{ .component }}
          image: {{ include "tidegate.image" (dict "image" $settings.image "root" $root) }}
          imagePullPolicy: {{ $root.Values.imagePullPolicy }}
          args: [--config, /etc/tidegate/{{ $pipeline.name }}.yaml]
          {{- if or $drives $settings.extraEnv }}
          env:
            {{- if $drives }}
            - {name: SPARK_CONF_DIR, value: /etc/spark}
            - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
            - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
            {{- end }}
            {{- with $settings.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- end }}
          ports:
            - {name: http, containerPort: {{ .port }}}
            {{- if $drives }}
            - {name: driver, containerPort: 7078}
            - {name: blocks, containerPort: 7079}
            {{- end }}
          {{- include "tidegate.probes" (dict "startup" .startup) | nindent 10 }}
          resources:
            {{- toYaml $settings.resources | nindent 12 }}
          securityContext:
            {{- include "tidegate.containerSecurity" $root | nindent 12 }}
          volumeMounts:
            - {name: config, mountPath: /etc/tidegate, readOnly: true}
            - {name: scratch, mountPath: /tmp}
            {{- if $drives }}
            - {name: spark, mountPath: /etc/spark, readOnly: true}
            - {name: spark-secret, mountPath: /run/tidegate-spark, readOnly: true}
            {{- end }}
            {{- include "tidegate.secretMount" $secrets | nindent 12 }}
            {{- with $settings.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
      volumes:
        - name: config
          configMap: {name: {{ include "tidegate.fullname" $root }}-{{ $pipeline.name }}}
        - name: scratch
          emptyDir: {sizeLimit: {{ default "64Mi" $settings.scratchSize }}}
        {{- if $drives }}
        - name: spark
          configMap: {name: {{ include "tidegate.fullname" $root }}-{{ $pipeline.name }}-spark}
        {{- include "tidegate.sparkSecretVolume" $spark | nindent 8 }}
        {{- end }}
        {{- include "tidegate.secretVolume" $secrets | nindent 8 }}
        {{- with $settings.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
{{- end -}}
