{{- /* The first part of all names: the release's, or the release's and the chart's. */ -}}
{{- define "moorage.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $full .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- /* The labels by which the pods of this release are chosen. Called with the root. */ -}}
{{- define "moorage.selector" -}}
app.kubernetes.io/name: moorage
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- /*
The name of what belongs to a component. Called with a list: the root, the component's name and, of a bridge, the bridge's.
So are the others that follow.
*/ -}}
{{- define "moorage.componentName" -}}
{{ include "moorage.fullname" (index . 0) }}-{{ rest . | join "-" }}
{{- end -}}

{{- /* The labels by which the pods of a component are chosen. */ -}}
{{- define "moorage.componentSelector" -}}
{{ include "moorage.selector" (index . 0) }}
{{ include "moorage.component" . }}
{{- end -}}
{{- define "moorage.component" -}}
app.kubernetes.io/component: {{ index . 1 }}
{{- if gt (len .) 2 }}
moorage.io/bridge: {{ index . 2 | quote }}
{{- end }}
{{- end -}}

{{- /* All labels of what has no component. Called with the root. */ -}}
{{- define "moorage.labels" -}}
{{ include "moorage.selector" . }}
app.kubernetes.io/part-of: moorage
app.kubernetes.io/version: {{ .Chart.AppVersion }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- /* All labels of a component. */ -}}
{{- define "moorage.componentLabels" -}}
{{ include "moorage.labels" (index . 0) }}
{{ include "moorage.component" . }}
{{- end -}}

{{- /* The labels of a component's pods: none that changes with the chart alone. */ -}}
{{- define "moorage.podLabels" -}}
{{ include "moorage.componentSelector" . }}
app.kubernetes.io/part-of: moorage
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion }}
{{- end -}}

{{- /* The settings of all processes. Called with the root. */ -}}
{{- define "moorage.settings" -}}
{{- $own := dict }}
{{- if .Values.kafka.strimzi.enabled }}
{{- $own = dict
  "MOORAGE_BOOTSTRAP_SERVERS" (printf "%s-kafka-bootstrap:9093" .Values.kafka.strimzi.cluster)
  "MOORAGE_KAFKA_SECURITY_PROTOCOL" "SSL"
  "MOORAGE_KAFKA_CA_FILE" "/etc/moorage/kafka-ca/ca.crt"
  "MOORAGE_KAFKA_CERT_FILE" "/etc/moorage/kafka-user/user.crt"
  "MOORAGE_KAFKA_KEY_FILE" "/etc/moorage/kafka-user/user.key"
  "MOORAGE_REPLICATION_FACTOR" (default "3" .Values.settings.MOORAGE_REPLICATION_FACTOR) }}
{{- end }}
{{- merge $own .Values.settings | toYaml }}
{{- end -}}

{{- /* A change of the settings replaces the pods. */ -}}
{{- define "moorage.podAnnotations" -}}
checksum/settings: {{ include "moorage.settings" . | sha256sum }}
{{- end -}}

{{- /* Where the files of Strimzi are, and which. Called with the root, and with a list: the root and the user's name. */ -}}
{{- define "moorage.kafkaMounts" -}}
{{- if .Values.kafka.strimzi.enabled }}
- {name: kafka-ca, mountPath: /etc/moorage/kafka-ca, readOnly: true}
- {name: kafka-user, mountPath: /etc/moorage/kafka-user, readOnly: true}
{{- end }}
{{- end -}}
{{- define "moorage.kafkaVolumes" -}}
{{- $strimzi := (index . 0).Values.kafka.strimzi }}
{{- if $strimzi.enabled }}
- name: kafka-ca
  secret:
    secretName: {{ $strimzi.cluster }}-cluster-ca-cert
    defaultMode: 0440
    items:
      - {key: ca.crt, path: ca.crt}
- name: kafka-user
  secret: {secretName: moorage-{{ index . 1 }}, defaultMode: 0440}
{{- end }}
{{- end -}}

{{- /* What all pods have in common. Called as `moorage.componentName`. */ -}}
{{- define "moorage.pod" -}}
{{- $root := index . 0 -}}
serviceAccountName: {{ include "moorage.componentName" . }}
automountServiceAccountToken: false
# Otherwise each Service would put variables like MOORAGE_GATEWAY_PORT=tcp://… into the environment of every pod.
enableServiceLinks: false
# A batch and its transaction end within MOORAGE_TRANSACTION_TIMEOUT_MS, 12 s, and a gateway first waits for 5 s.
terminationGracePeriodSeconds: 30
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{- /* The pods of a component are spread over zones and nodes. Called as the one before. */ -}}
{{- define "moorage.spread" -}}
topologySpreadConstraints:
  {{- $selector := include "moorage.componentSelector" . }}
  {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - topologyKey: {{ . }}
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- $selector | nindent 8 }}
  {{- end }}
{{- end -}}

{{- /* What all containers have in common. Called with the root. */ -}}
{{- define "moorage.container" -}}
name: moorage
image: {{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
envFrom:
  - configMapRef: {name: {{ include "moorage.fullname" . }}-settings}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{- /*
The probes. A process serves its health before it reaches Kafka. It is alive while it answers: whether it makes progress
is watched by its own watchdog, which ends it. It is ready when all its partitions are restored, however long that takes.
Called with the name and the scheme of the port.
*/ -}}
{{- define "moorage.probes" -}}
{{- $more := ternary ", scheme: HTTPS" "" (eq . "https") -}}
startupProbe:
  httpGet: {path: /healthz, port: {{ . }}{{ $more }}}
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 60
readinessProbe:
  httpGet: {path: /readyz, port: {{ . }}{{ $more }}}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 3
livenessProbe:
  httpGet: {path: /healthz, port: {{ . }}{{ $more }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
{{- end -}}

{{- /* A component may lose one pod at a time, and has an identity. Called as `moorage.componentName`. */ -}}
{{- define "moorage.beside" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "moorage.componentName" . }}
  namespace: {{ (index . 0).Release.Namespace }}
  labels: {{- include "moorage.componentLabels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels: {{- include "moorage.componentSelector" . | nindent 6 }}
---
{{ include "moorage.serviceAccount" . }}
{{- end -}}

{{- define "moorage.serviceAccount" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "moorage.componentName" . }}
  namespace: {{ (index . 0).Release.Namespace }}
  labels: {{- include "moorage.componentLabels" . | nindent 4 }}
automountServiceAccountToken: false
{{- end -}}

{{- /* The services of the chain `targets`, in the order in which they decide. */}}
{{- define "moorage.chain" -}}
condition-ingest taint-manager eviction timer
{{- end }}
