{{- /* The pod of a job that looks into each pipeline's source, with the admin service's image and what it is given beside
the chart: certificates, say. */ -}}
{{- define "tidegate.jobPod" -}}
metadata:
  labels:
    {{- include "tidegate.labels" .root | nindent 4 }}
    app.kubernetes.io/component: job
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- include "tidegate.scheduling" (dict "settings" .root.Values.admin "root" .root) | nindent 2 }}
  securityContext:
    {{- include "tidegate.podSecurity" .root | nindent 4 }}
  containers:
    - name: {{ .script | replace "_" "-" }}
      image: {{ include "tidegate.image" (dict "image" .root.Values.admin.image "root" .root) }}
      imagePullPolicy: {{ .root.Values.imagePullPolicy }}
      # The script and the configurations stand here: a hook may outlive every ConfigMap of the release.
      command: [/app/bin/python, -c, "$(SCRIPT)"]
      env:
        - name: SCRIPT
          value: |
            {{- .root.Files.Get (printf "files/%s.py" .script) | nindent 12 }}
        {{- if .answer }}
        - {name: DECIDED, value: {{ .root.Values.uninstall.slots }}}
        - {name: RELEASE, value: {{ .root.Release.Name }}}
        - {name: NAMESPACE, value: {{ .root.Release.Namespace }}}
        - {name: QUESTION, value: {{ .answer }}}
        - name: ANSWER
          valueFrom: {configMapKeyRef: {name: {{ .answer }}, key: answer, optional: true}}
        {{- end }}
        {{- with .root.Values.admin.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- range .root.Values.pipelines }}
        {{- if not (and $.withoutPaused .paused) }}
        - name: PIPELINE_{{ .name | upper | replace "-" "_" }}
          value: |
            {{- include "tidegate.config" . | nindent 12 }}
        {{- end }}
        {{- end }}
      resources:
        {{- toYaml .root.Values.admin.resources | nindent 8 }}
      securityContext:
        {{- include "tidegate.containerSecurity" .root | nindent 8 }}
      volumeMounts:
        - {name: scratch, mountPath: /tmp}
        {{- range .root.Values.pipelines }}
        {{- include "tidegate.secretMount" (dict "pipeline" . "component" "job" "sections" (list "source") "name" (printf "secrets-%s" .name)) | nindent 8 }}
        {{- end }}
        {{- with .root.Values.admin.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: scratch
      emptyDir: {sizeLimit: 16Mi}
    {{- range .root.Values.pipelines }}
    {{- include "tidegate.secretVolume" (dict "pipeline" . "component" "job" "sections" (list "source") "name" (printf "secrets-%s" .name)) | nindent 4 }}
    {{- end }}
    {{- with .root.Values.admin.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}
