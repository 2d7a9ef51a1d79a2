{{/* Names and labels. A template that is called with a component gets (list $ "dns"). */}}

{{- define "clusterset.name" -}}
{{ .Values.nameOverride | default .Chart.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- /* Room is left for the longest suffix, -member-metrics. */}}
{{- define "clusterset.fullname" -}}
{{- $name := include "clusterset.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 45 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 45 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 45 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "clusterset.componentName" -}}
{{ include "clusterset.fullname" (index . 0) }}-{{ index . 1 }}
{{- end }}

{{- /* A cluster-scoped name holds the namespace, so that two releases of one name don't share it. */}}
{{- define "clusterset.clusterName" -}}
{{ include "clusterset.componentName" . }}:{{ (index . 0).Release.Namespace }}
{{- end }}

{{- /* What the API server calls the account of a component's pods. */}}
{{- define "clusterset.username" -}}
system:serviceaccount:{{ (index . 0).Release.Namespace }}:{{ include "clusterset.componentName" . }}
{{- end }}

{{- /* An admission policy's, called with (list $ "hub" "addresses"). It has to be a DNS name, unlike the others that are cluster-scoped. */}}
{{- define "clusterset.policyName" -}}
{{ include "clusterset.componentName" (list (index . 0) (index . 1)) }}-{{ index . 2 }}.{{ (index . 0).Release.Namespace }}
{{- end }}

{{- define "clusterset.labels" -}}
{{ include "clusterset.labelsAnd" (list . dict) }}
{{- end }}

{{- /* With more labels, which the user chose for this object. */}}
{{- define "clusterset.labelsAnd" -}}
{{- with index . 0 -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: {{ include "clusterset.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
{{- with include "clusterset.chosenLabels" . }}
{{ . }}
{{- end }}
{{- end }}

{{- /* The user's labels: those of one object win over those of all, as a key may not be there twice. */}}
{{- define "clusterset.chosenLabels" -}}
{{- with mustMergeOverwrite (deepCopy (index . 0).Values.commonLabels) (index . 1) }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{- /* Cluster-scoped, and a DNS name, so it holds the namespace like an admission policy's. A PriorityClass's value can't be changed, so
another value has another name. */}}
{{- define "clusterset.priorityClass" -}}
{{ include "clusterset.fullname" . }}.{{ .Release.Namespace }}
{{- with int64 .Values.priorityClass.value }}
{{- if ne . 900000000 }}.{{ . }}{{ end }}
{{- end }}
{{- end }}

{{- define "clusterset.componentLabels" -}}
{{ include "clusterset.labels" (index . 0) }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- /* What never changes, as a Deployment's selector can't be changed. */}}
{{- define "clusterset.selector" -}}
app.kubernetes.io/name: {{ include "clusterset.name" (index . 0) }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "clusterset.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}
{{- else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- /* The DNS Service. In mode clusterDNS it is the cluster's. */}}
{{- define "clusterset.dnsService" -}}
{{- if .Values.dns.service.name }}{{ .Values.dns.service.name }}
{{- else if eq .Values.dns.mode "clusterDNS" }}kube-dns
{{- else }}{{ include "clusterset.componentName" (list . "dns") }}{{ end }}
{{- end }}
