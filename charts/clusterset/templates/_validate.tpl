{{/*
Checks that values.schema.json can't make: values that contradict each other or the cluster, and invalid strings, for which a
schema could only show a regular expression. Each message says what to do.
*/}}

{{- define "clusterset.validate" -}}
{{- with .Values }}
{{- if not (or .dns.enabled .member.enabled .hub.enabled .crds.enabled) }}
{{- fail "nothing to install: set one of dns.enabled, member.enabled, hub.enabled and crds.enabled" }}
{{- end }}
{{- include "clusterset.validate.texts" $ }}
{{- if and (has "none" .prefer) (gt (len .prefer) 1) }}
{{- fail (printf "prefer is %s; none can't be combined with tiers: keep either none or the tiers" (toJson .prefer)) }}
{{- end }}
{{- if .dns.enabled }}
{{- include "clusterset.validate.zones" $ }}
{{- include "clusterset.validate.location" $ }}
{{- if eq .dns.mode "clusterDNS" }}
{{- include "clusterset.validate.clusterDNS" $ }}
{{- else if not .dns.service.create }}
{{- fail "dns.service.create is false, but in dns.mode standalone the cluster DNS needs a Service to forward to; set it to true, or dns.mode to clusterDNS" }}
{{- end }}
{{- end }}
{{- if and .member.enabled .member.skipGlobalServices (eq .member.dataPath "none") }}
{{- fail "member.dataPath is none and member.skipGlobalServices is true, so no name would have an address; set member.dataPath to pods or clusterips, or member.skipGlobalServices to false" }}
{{- end }}
{{- if .hub.enabled }}
{{- include "clusterset.validate.hub" $ }}
{{- end }}
{{- end }}
{{- end }}

{{- define "clusterset.validate.texts" -}}
{{- $label := "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?" }}
{{- with .Values.location.cluster }}
{{- if not (regexMatch (printf "^%s([.]%s)?$" $label $label) .) }}
{{- fail (printf "location.cluster is %q; want the cluster's name in the set, a DNS label (a-z, 0-9, '-') such as beijing" .) }}
{{- end }}
{{- end }}
{{- range .Values.dns.namespaces }}
{{- if not (regexMatch (printf "^%s$" $label) .) }}
{{- fail (printf "dns.namespaces has %q; want names of namespaces" .) }}
{{- end }}
{{- end }}
{{- range $key := list "exportNamespaces" "excludeExportNamespaces" "importNamespaces" "excludeNamespaces" }}
{{- range index $.Values.member $key }}
{{- if not (regexMatch "^[-a-z0-9*?^\\[\\]]+$" .) }}
{{- fail (printf "member.%s has %q; want names of namespaces, or patterns such as team-*" $key .) }}
{{- end }}
{{- end }}
{{- end }}
{{- range .Values.networkPolicy.apiServerCIDRs }}
{{- if not (regexMatch "^[0-9a-fA-F:.]+/[0-9]{1,3}$" .) }}
{{- fail (printf "networkPolicy.apiServerCIDRs has %q; want networks such as 192.0.2.0/24 or 2001:db8::1/128" .) }}
{{- end }}
{{- end }}
{{- with .Values.image.digest }}
{{- if not (regexMatch "^sha256:[0-9a-f]{64}$" .) }}
{{- fail (printf "image.digest is %q; want sha256: and 64 hexadecimal digits" .) }}
{{- end }}
{{- end }}
{{- range $name, $duration := dict "hub.suspectAfter" .Values.hub.suspectAfter "hub.expireAfter" .Values.hub.expireAfter
      "hub.forgetAfter" .Values.hub.forgetAfter "member.heartbeatInterval" .Values.member.heartbeatInterval
      "dns.snapshot.maxAge" (.Values.dns.snapshot.maxAge | default "1h") }}
{{- if not (regexMatch "^([0-9]+(h|m|s))+$" $duration) }}
{{- fail (printf "%s is %q; want a duration such as 40s, 5m or 24h" $name $duration) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "clusterset.validate.zones" -}}
{{- range .Values.dns.zones }}
{{- if not (regexMatch "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$" .) }}
{{- fail (printf "dns.zones has %q; want lower-case DNS names without a trailing dot, such as clusterset.local" .) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* CoreDNS doesn't start with a boundary that no endpoint is within. */}}
{{- define "clusterset.validate.location" -}}
{{- $location := .Values.location }}
{{- $wanted := .Values.prefer }}
{{- with .Values.boundary }}
{{- $wanted = append $wanted . }}
{{- if and (ne . "cluster") (not (index $location .)) }}
{{- if not $location.fromNode }}
{{- fail (printf "boundary is %s, but location.%s is empty and location.fromNode is false, so no endpoint would be within it; set one of them" . .) }}
{{- end }}
{{- if semverCompare "<1.35.0-0" $.Capabilities.KubeVersion.Version }}
{{- fail (printf "boundary is %s, but location.%s is empty and Kubernetes %s doesn't copy topology labels to pods (1.35 does); set location.%s" . . $.Capabilities.KubeVersion.Version .) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and (has "cluster" $wanted) (not $location.cluster) }}
{{- fail "prefer or boundary contains cluster, but location.cluster is empty; set it to this cluster's name in the set" }}
{{- end }}
{{- end }}

{{- define "clusterset.validate.clusterDNS" -}}
{{- with .Values.dns }}
{{- if and .service.create (not .service.clusterIP) }}
{{- fail "dns.mode is clusterDNS, which needs dns.service.clusterIP: the address that kubelets give to pods (kubectl -n kube-system get service kube-dns -o jsonpath={.spec.clusterIP}); or set dns.service.create=false to join the existing Service" }}
{{- end }}
{{- if and (not .service.create) (ne $.Release.Namespace "kube-system") }}
{{- fail (printf "dns.service.create is false, but the Service kube-dns finds its pods in kube-system only, not in %s; install with --namespace kube-system" $.Release.Namespace) }}
{{- end }}
{{- if has .clusterDNS.domain .zones }}
{{- fail (printf "dns.zones has %s, which is dns.clusterDNS.domain: the cluster's own names wouldn't be answered; remove it from dns.zones" .clusterDNS.domain) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "clusterset.validate.hub" -}}
{{- $t := toDate "2006-01-02" "2000-01-01" }}
{{- with .Values.hub }}
{{- $suspect := mustDateModify .suspectAfter $t }}
{{- $expire := mustDateModify .expireAfter $t }}
{{- $forget := mustDateModify .forgetAfter $t }}
{{- if not (and ($suspect.Before $expire) ($expire.Before $forget)) }}
{{- fail (printf "hub.suspectAfter (%s), hub.expireAfter (%s) and hub.forgetAfter (%s) must increase in this order" .suspectAfter .expireAfter .forgetAfter) }}
{{- end }}
{{- /* Policies can use a CEL library one version after its introduction, and the one for IP addresses came with 1.30. */}}
{{- if and .admissionPolicy.enabled (semverCompare "<1.31.0-0" $.Capabilities.KubeVersion.Version) }}
{{- fail (printf "hub.admissionPolicy.enabled needs Kubernetes 1.31, whose policies can check networks; this is %s. Upgrade the hub's cluster, or set it to false: importers still drop addresses outside a member's networks, but nothing limits the size of what a member writes" $.Capabilities.KubeVersion.Version) }}
{{- end }}
{{- if and .manageMembers (not (regexMatch "^https://[^/ ]+" .server)) }}
{{- fail (printf "hub.server is %q; with hub.manageMembers it must be the URL at which members reach the hub's API server, such as https://hub.example.com:6443" .server) }}
{{- end }}
{{- if and .members (not .manageMembers) }}
{{- fail "hub.members is set, but hub.manageMembers is false; set it to true" }}
{{- end }}
{{- $seen := dict }}
{{- range .members }}
{{- if not (regexMatch "^[a-z0-9]([-a-z0-9]{0,43}[a-z0-9])?$" .name) }}
{{- fail (printf "hub.members has the name %q; want a cluster's name in the set, a DNS label (a-z, 0-9, '-') of at most 45 letters such as beijing" .name) }}
{{- end }}
{{- if hasKey $seen .name }}
{{- fail (printf "hub.members has the name %s twice; remove one of the two" .name) }}
{{- end }}
{{- $_ := set $seen .name true }}
{{- range concat (default list .cidrs) (default list .externalCIDRs) }}
{{- if not (regexMatch "^[0-9a-fA-F:.]+/[0-9]{1,3}$" .) }}
{{- fail (printf "hub.members has the network %q; want networks such as 10.1.0.0/16 or fd00:1::/48" .) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and .admissionPolicy.requireCIDRs (not .admissionPolicy.enabled) }}
{{- fail "hub.admissionPolicy.requireCIDRs is true, but hub.admissionPolicy.enabled is false; set both to true, or neither" }}
{{- end }}
{{- end }}
{{- end }}
