{{/* Objects that every component has, called with (list $ "dns"). */}}

{{- define "clusterset.metadata" -}}
name: {{ include "clusterset.componentName" . }}
namespace: {{ (index . 0).Release.Namespace }}
labels:
  {{- include "clusterset.componentLabels" . | nindent 2 }}
{{- end }}

{{- define "clusterset.clusterMetadata" -}}
name: {{ include "clusterset.clusterName" . }}
labels:
  {{- include "clusterset.componentLabels" . | nindent 2 }}
{{- end }}

{{- define "clusterset.serviceAccount" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "clusterset.metadata" . | nindent 2 }}
  {{- with (index (index . 0).Values (index . 1)).serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
# Our own pods ask for the token; no other pod that names the account gets it by chance.
automountServiceAccountToken: false
{{- end }}

{{- define "clusterset.bindings" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  {{- include "clusterset.clusterMetadata" . | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ include "clusterset.clusterName" . }}
subjects:
  {{- include "clusterset.subject" . | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- include "clusterset.metadata" . | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ include "clusterset.componentName" . }}
subjects:
  {{- include "clusterset.subject" . | nindent 2 }}
{{- end }}

{{- define "clusterset.subject" -}}
- kind: ServiceAccount
  name: {{ include "clusterset.componentName" . }}
  namespace: {{ (index . 0).Release.Namespace }}
{{- end }}

{{- /* What the leader's election needs in the release's namespace: called with the Lease's name. */}}
{{- define "clusterset.leaderRules" -}}
# A create is authorized before the object has a name, so it can't be bound to one.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ . }}]
  verbs: [get, update]
# Who leads is told in core Events.
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end }}

{{- define "clusterset.podDisruptionBudget" -}}
{{- $budget := (index (index . 0).Values (index . 1)).podDisruptionBudget }}
{{- if $budget.enabled -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "clusterset.metadata" . | nindent 2 }}
spec:
  maxUnavailable: {{ $budget.maxUnavailable }}
  # A pod that isn't ready protects nobody, and would hold up the drain of its node.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "clusterset.selector" . | nindent 6 }}
{{- end }}
{{- end }}

{{- /* Headless: Prometheus asks each pod, and nobody else asks. */}}
{{- define "clusterset.metricsService" -}}
{{- $root := index . 0 }}
{{- if $root.Values.metrics.serviceMonitor.enabled -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "clusterset.componentName" . }}-metrics
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "clusterset.componentLabels" . | nindent 4 }}
    clusterset.dev/metrics: "true"
spec:
  clusterIP: None
  # A server that isn't ready is the one whose metrics are wanted.
  publishNotReadyAddresses: true
  selector:
    {{- include "clusterset.selector" . | nindent 4 }}
  ports:
    - {name: metrics, port: {{ index . 2 }}, targetPort: metrics, protocol: TCP}
{{- end }}
{{- end }}
