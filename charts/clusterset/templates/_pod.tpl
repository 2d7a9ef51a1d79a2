{{/* What the pods of all components have in common. Each is called with (list $ "dns"). */}}

{{- define "clusterset.podMetadata" -}}
{{- $root := index . 0 }}
{{- $values := index $root.Values (index . 1) -}}
labels:
  {{- include "clusterset.selector" . | nindent 2 }}
  {{- if and (eq (index . 1) "dns") (eq $root.Values.dns.mode "clusterDNS") }}
  k8s-app: kube-dns
  {{- end }}
  {{- with include "clusterset.chosenLabels" (list $root $values.podLabels) }}
  {{- . | nindent 2 }}
  {{- end }}
{{- with $values.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "clusterset.podSpec" -}}
{{- $root := index . 0 }}
{{- $component := index . 1 }}
{{- $values := index $root.Values $component }}
{{- $clusterDNS := and (eq $component "dns") (eq $root.Values.dns.mode "clusterDNS") -}}
serviceAccountName: {{ include "clusterset.componentName" . }}
automountServiceAccountToken: true
# Else Kubernetes sets variables for every Service of the namespace, and one called clusterset would set some of ours.
enableServiceLinks: false
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- $class := ternary (include "clusterset.priorityClass" $root) "" $root.Values.priorityClass.create }}
{{- with $values.priorityClassName | default (ternary "system-cluster-critical" $class $clusterDNS) }}
priorityClassName: {{ . }}
{{- end }}
{{- /* No user: the image has one, and OpenShift's restricted-v2 gives each namespace its own. */}}
{{- $context := dict "runAsNonRoot" true "seccompProfile" (dict "type" "RuntimeDefault") }}
{{- if $clusterDNS }}
{{- /* Lets port 53 be bound without root and without a capability. It is of the pod's own network namespace. */}}
{{- $_ := set $context "sysctls" (list (dict "name" "net.ipv4.ip_unprivileged_port_start" "value" "53")) }}
{{- end }}
securityContext:
  {{- toYaml (mustMergeOverwrite $context $root.Values.podSecurityContext) | nindent 2 }}
{{- if not (and (eq $component "dns") (eq $root.Values.dns.kind "DaemonSet")) }}
topologySpreadConstraints:
  {{- if $values.topologySpreadConstraints }}
  {{- toYaml $values.topologySpreadConstraints | nindent 2 }}
  {{- else }}
  # A pod in the wrong place is better than none.
  {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "clusterset.selector" (list $root $component) | nindent 8 }}
    matchLabelKeys: [pod-template-hash]
  {{- end }}
  {{- end }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if or $values.tolerations $clusterDNS }}
tolerations:
  {{- if $clusterDNS }}
  - {key: CriticalAddonsOnly, operator: Exists}
  - {key: node-role.kubernetes.io/control-plane, effect: NoSchedule}
  {{- end }}
  {{- with $values.tolerations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "clusterset.container" -}}
{{- $root := index . 0 }}
{{- $values := index $root.Values (index . 1) -}}
image: {{ include "clusterset.image" $root | quote }}
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
resources:
  {{- toYaml $values.resources | nindent 2 }}
{{- end }}

{{- /* The agents' probes: /healthz and /readyz say that the process runs. A hub that is away is no reason to restart it. */}}
{{- define "clusterset.agentProbes" -}}
livenessProbe:
  httpGet: {path: /healthz, port: probes}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: probes}
  periodSeconds: 5
  timeoutSeconds: 5
ports:
  - {name: metrics, containerPort: 8080, protocol: TCP}
  - {name: probes, containerPort: 8081, protocol: TCP}
{{- end }}

{{- /* zone or region: as it is set, else the node's. Called with (list $ "zone"). */}}
{{- define "clusterset.locationEnv" -}}
{{- $location := (index . 0).Values.location }}
{{- $of := index . 1 -}}
- name: CLUSTERSET_{{ upper $of }}
  {{- if and $location.fromNode (not (index $location $of)) }}
  valueFrom:
    fieldRef:
      fieldPath: metadata.labels['topology.kubernetes.io/{{ $of }}']
  {{- else }}
  value: {{ index $location $of | quote }}
  {{- end }}
{{- end }}
