{{- /* The arguments of a bridge. Called with a list: the root and the bridge. */ -}}
{{- define "moorage.bridgeArgs" -}}
{{- $root := index . 0 }}
{{- $bridge := index . 1 }}
- bridge
- {{ $bridge.kind }}
{{- with $bridge.cluster }}
- {{ printf "--cluster=%s" . | quote }}
{{- end }}
{{- with $bridge.acts }}
- --act={{ join "," . }}
- --lease-namespace={{ include "moorage.leaseNamespace" (list $root $bridge) }}
{{- end }}
{{- with $bridge.eviction }}
- --eviction={{ . }}
{{- end }}
{{- with $bridge.schedulerName }}
- {{ printf "--scheduler-name=%s" . | quote }}
{{- end }}
{{- if hasKey $bridge "qps" }}
- --kube-api-qps={{ $bridge.qps }}
{{- end }}
{{- if hasKey $bridge "burst" }}
- --kube-api-burst={{ int $bridge.burst }}
{{- end }}
{{- range $bridge.extraArgs }}
- {{ . | quote }}
{{- end }}
- --http-port=8081
{{- end -}}

{{- /* Where the Lease of a bridge is: with Moorage, or where ops/kubernetes/bridge permits it elsewhere. */ -}}
{{- define "moorage.leaseNamespace" -}}
{{- $bridge := index . 1 -}}
{{- $own := ternary "moorage" (index . 0).Release.Namespace (hasKey $bridge "kubeconfigSecret") -}}
{{- $bridge.leaseNamespace | default (ternary "karmada-system" $own (eq $bridge.kind "karmada")) -}}
{{- end -}}

{{- /* Fails if bridges contradict each other or themselves. What each value may be is in values.schema.json. */ -}}
{{- define "moorage.checkBridges" -}}
{{- $names := dict }}
{{- $fleets := dict }}
{{- $here := dict }}
{{- $set := list "act" "cluster" "kubeconfig" "lease-namespace" "eviction" "scheduler-name" "http-port" }}
{{- $set = concat $set (list "kube-api-qps" "kube-api-burst") }}
{{- range $index, $bridge := .Values.bridges }}
{{- $where := printf "bridges[%d] (%s)" $index $bridge.name }}
{{- $kind := $bridge.kind }}

{{- with index $names $bridge.name }}
{{- fail (printf "%s: name: invalid value %q: %s has it, too" $where $bridge.name .) }}
{{- end }}
{{- $_ := set $names $bridge.name (printf "bridges[%d]" $index) }}

{{- $others := dict "ocm" (list "cluster" "eviction" "schedulerName") "karmada" (list "cluster" "eviction") }}
{{- range index $others $kind }}
{{- if hasKey $bridge . }}
{{- fail (printf "%s: %s: must not be set: a bridge of kind %s does not have it" $where . $kind) }}
{{- end }}
{{- end }}
{{- if and (eq $kind "karmada") (not $bridge.kubeconfigSecret) }}
{{- fail (printf "%s: kubeconfigSecret: must be set: Karmada's API server is not that of this cluster" $where) }}
{{- end }}
{{- if eq ($bridge.cluster | default "") "home" }}
{{- fail (printf "%s: cluster: invalid value \"home\": the home fleet is called so. It is that without one" $where) }}
{{- end }}

{{- $fleet := printf "%s/%s" $kind ($bridge.cluster | default "") }}
{{- with index $fleets $fleet }}
{{- if eq $kind "kubernetes" }}
{{- fail (printf "%s: cluster: invalid value %q: %s has it, too" $where ($bridge.cluster | default "") .) }}
{{- end }}
{{- $why := printf "%s has it, too, and the objects of both would be those of the home fleet" . }}
{{- fail (printf "%s: kind: invalid value %q: %s" $where $kind $why) }}
{{- end }}
{{- $_ := set $fleets $fleet (printf "bridges[%d]" $index) }}

{{- if not $bridge.kubeconfigSecret }}
{{- with index $here $kind }}
{{- fail (printf "%s: kubeconfigSecret: must be set: %s is the one of kind %s to this cluster" $where . $kind) }}
{{- end }}
{{- $_ := set $here $kind (printf "bridges[%d]" $index) }}
{{- end }}

{{- range $argument := $bridge.extraArgs }}
{{- range $set }}
{{- if hasPrefix (printf "--%s=" .) $argument }}
{{- fail (printf "%s: extraArgs: invalid value %q: the chart sets --%s" $where $argument .) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}
