{{- /* What Spark is told where a pipeline's lanes run in executors. `config.processor.spark` overrides every line. */ -}}
{{- define "tidegate.sparkDefaults" -}}
{{- $executors := .settings.executors -}}
{{- $slots := 0 -}}
{{- range .pipeline.config.sinks -}}{{- $slots = add $slots (default 1 .writers) -}}{{- end -}}
spark.kubernetes.namespace                           {{ .root.Release.Namespace }}
spark.kubernetes.container.image                     {{ include "tidegate.image" (dict "image" .settings.image "root" .root) }}
spark.kubernetes.container.image.pullPolicy          {{ .root.Values.imagePullPolicy }}
# Executors are owned by the driver's pod: whatever becomes of it, Kubernetes deletes them.
spark.kubernetes.driver.pod.name                     ${env:POD_NAME}
spark.driver.host                                    ${env:POD_IP}
spark.driver.bindAddress                             0.0.0.0
spark.driver.port                                    7078
spark.driver.blockManager.port                       7079
spark.blockManager.port                              7079
# Whoever reaches these ports could else have the driver hand over all that it knows, or run whatever they like.
spark.authenticate                                   true
spark.authenticate.secret.file                       /run/tidegate-spark/secret
spark.network.crypto.enabled                         true
spark.network.crypto.authEngineVersion               2
spark.network.crypto.cipher                          AES/GCM/NoPadding
spark.kubernetes.executor.podTemplateFile            /etc/spark/executor.yaml
spark.kubernetes.executor.podTemplateContainerName   executor
# So that the role needs nothing but pods.
spark.kubernetes.executor.disableConfigMap           true
spark.kubernetes.driver.service.deleteOnTermination  false
spark.kubernetes.driver.ownPersistentVolumeClaim     false
spark.executor.instances                             {{ $executors.count }}
# A slot for each writer of a lane: those of one lane run at once. All lanes of a raw topic prefer one executor: with no
# more slots than these they have to spread.
spark.executor.cores                                 {{ div (add $slots (sub $executors.count 1)) $executors.count }}
spark.kubernetes.executor.request.cores              {{ $executors.cpu }}
spark.executor.memory                                {{ $executors.heap }}
spark.executor.memoryOverhead                        {{ $executors.overhead }}
# Spark gives up where executors die again and again: within an hour, not since the start.
spark.executor.failuresValidityInterval              1h
{{- end -}}

{{- /* The pod of an executor: the processor's image, its secrets and its security, and no right to ask the API server. */ -}}
{{- define "tidegate.executorPod" -}}
{{- $root := .root -}}
{{- $pipeline := .pipeline -}}
{{- $secrets := dict "pipeline" $pipeline "component" "processor" "sections" .sections "name" "secrets" -}}
apiVersion: v1
kind: Pod
metadata:
  labels:
    {{- include "tidegate.labels" $root | nindent 4 }}
    app.kubernetes.io/component: executor
    tidegate.io/pipeline: {{ $pipeline.name }}
    {{- with .settings.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .settings.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "tidegate.serviceAccount" $root }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: 15
  securityContext:
    {{- include "tidegate.podSecurity" $root | nindent 4 }}
  {{- include "tidegate.scheduling" (dict "settings" .settings "root" $root) | nindent 2 }}
  containers:
    - name: executor
      command: [/usr/bin/tini, --, /app/start.sh, /app/bin/python, -I, /app/executor.py]
      {{- with .settings.extraEnv }}
      env:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        {{- include "tidegate.containerSecurity" $root | nindent 8 }}
      volumeMounts:
        # By this name Spark knows it for its own scratch.
        - {name: spark-local-dir-1, mountPath: /tmp}
        - {name: spark-secret, mountPath: /run/tidegate-spark, readOnly: true}
        {{- include "tidegate.secretMount" $secrets | nindent 8 }}
        {{- with .settings.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: spark-local-dir-1
      emptyDir: {sizeLimit: {{ .settings.scratchSize }}}
    {{- include "tidegate.sparkSecretVolume" . | nindent 4 }}
    {{- include "tidegate.secretVolume" $secrets | nindent 4 }}
    {{- with .settings.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{- /* Of the secret that the chart draws. */ -}}
{{- define "tidegate.sparkSecretName" -}}
{{- printf "%s-%s-spark-secret" (include "tidegate.fullname" .root) .pipeline.name -}}
{{- end -}}

{{- /* What driver and executors know of each other, as a file: Spark would put it into the environment of executors. */ -}}
{{- define "tidegate.sparkSecretVolume" -}}
{{- $secret := .settings.executors.secret -}}
- name: spark-secret
  secret:
    secretName: {{ default (include "tidegate.sparkSecretName" .) $secret.existingSecret }}
    items: [{key: {{ ternary $secret.key "secret" (ne $secret.existingSecret "") | quote }}, path: secret, mode: 0440}]
{{- end -}}
