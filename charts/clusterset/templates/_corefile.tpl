{{/* The Corefile, made from the values. */}}

{{- define "clusterset.dnsPort" -}}
{{ ternary 53 1053 (eq .Values.dns.mode "clusterDNS") }}
{{- end }}

{{- define "clusterset.corefile" -}}
{{- if .Values.dns.corefile }}
{{- .Values.dns.corefile | trim }}
{{- else if eq .Values.dns.mode "clusterDNS" }}
{{- include "clusterset.corefile.clusterDNS" . }}
{{- else }}
{{- include "clusterset.corefile.standalone" . }}
{{- end }}
{{- end }}

{{- define "clusterset.corefile.standalone" -}}
{{- range $i, $zone := .Values.dns.zones }}{{ if $i }} {{ end }}{{ $zone }}:{{ include "clusterset.dnsPort" $ }}{{ end }} {
    {{- include "clusterset.corefile.head" . | nindent 4 }}
    clusterset {
        {{- include "clusterset.corefile.options" . | nindent 8 }}
    }
    {{- with .Values.dns.extraConfig }}
    {{- trim . | nindent 4 }}
    {{- end }}
    loadbalance
    reload
}
{{- end }}

{{- define "clusterset.corefile.clusterDNS" -}}
.:{{ include "clusterset.dnsPort" . }} {
    {{- include "clusterset.corefile.head" . | nindent 4 }}
    clusterset {{ join " " .Values.dns.zones }} {
        {{- include "clusterset.corefile.options" . | nindent 8 }}
    }
    kubernetes {{ .Values.dns.clusterDNS.domain }} in-addr.arpa ip6.arpa {
        pods insecure
        # Imported endpoints are clusterset's. Here they would only be second names in reverse lookups.
        labels !multicluster.kubernetes.io/service-name
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }
    {{- with .Values.dns.extraConfig }}
    {{- trim . | nindent 4 }}
    {{- end }}
    forward . {{ join " " .Values.dns.clusterDNS.upstream }} {
        max_concurrent 1000
    }
    # The kubernetes plugin and clusterset answer from memory; caching their zones would only make answers older.
    cache 30 {
        disable success {{ .Values.dns.clusterDNS.domain }}
        disable denial {{ .Values.dns.clusterDNS.domain }}
    }
    loop
    reload
    loadbalance
}
{{- end }}

{{- define "clusterset.corefile.head" -}}
errors
health :8080
ready :8181 {
    monitor continuously
}
prometheus :9153
bufsize 1232
shed
{{- end }}

{{- define "clusterset.corefile.options" -}}
location {$CLUSTERSET_CLUSTER} {$CLUSTERSET_ZONE} {$CLUSTERSET_REGION}
lameduck {{ int .Values.dns.lameduckSeconds }}s
{{- with .Values.prefer }}
prefer {{ join " " . }}
{{- end }}
{{- with .Values.boundary }}
boundary {{ . }}
{{- end }}
{{- with .Values.dns }}
{{- with .namespaces }}
namespaces {{ join " " . }}
{{- end }}
{{- if ne (int .ttl) 5 }}
ttl {{ int .ttl }}
{{- end }}
{{- if .maxAnswers }}
max_answers {{ int .maxAnswers }}
{{- end }}
{{- if .snapshot.enabled }}
snapshot /var/lib/clusterset/dns.snapshot{{ with .snapshot.maxAge }} {{ . }}{{ end }}
{{- end }}
{{- end }}
{{- end }}
