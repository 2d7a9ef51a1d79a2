{{/*
NetworkPolicy of a component. servesDNS: it is asked; asksDNS: it asks other servers, those of upstream on their ports, and the cluster DNS, whose pods on OpenShift listen on 5353; probes: the ports that the kubelet asks; beacon: other clusters measure whether they reach it.
*/}}

{{- define "clusterset.networkPolicy" -}}
{{- $policy := .root.Values.networkPolicy -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ include "clusterset.componentName" (list .root .component) }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "clusterset.componentLabels" (list .root .component) | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      {{- include "clusterset.selector" (list .root .component) | nindent 6 }}
  policyTypes: [Ingress, Egress]
  ingress:
    {{- if .servesDNS }}
    - ports:
        - {port: dns, protocol: UDP}
        - {port: dns-tcp, protocol: TCP}
      {{- with $policy.dnsFrom }}
      from:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- end }}
    - ports:
        - {port: metrics, protocol: TCP}
      {{- with $policy.metricsFrom }}
      from:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- if .beacon }}
    - ports:
        - {port: beacon, protocol: TCP}
      {{- with $policy.beaconFrom }}
      from:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- end }}
    # The kubelet's probes come from the node, whose address a selector can't name.
    - ports:
        {{- range .probes }}
        - {port: {{ . }}, protocol: TCP}
        {{- end }}
  egress:
    - ports:
        {{- range $policy.apiServerPorts }}
        - {port: {{ int . }}, protocol: TCP}
        {{- end }}
      {{- with $policy.apiServerCIDRs }}
      to:
        {{- range . }}
        - ipBlock: {cidr: {{ . | quote }}}
        {{- end }}
      {{- end }}
    {{- if .beacon }}
    - ports:
        {{- $own := int .root.Values.member.beacon.port }}
        - {port: {{ $own }}, protocol: TCP}
        {{- range $policy.beaconPorts }}
        {{- if ne (int .) $own }}
        - {port: {{ int . }}, protocol: TCP}
        {{- end }}
        {{- end }}
    {{- end }}
    {{- if .asksDNS }}
    - ports:
        {{- $ports := list 53 5353 }}
        {{- range .upstream }}
        {{- /* Such as 192.0.2.53:5353, [2001:db8::53]:5353, tls://192.0.2.53 and tls://192.0.2.53:8853. */}}
        {{- $server := regexReplaceAll "^.*://" . "" }}
        {{- $port := ternary 853 53 (hasPrefix "tls://" .) }}
        {{- if regexMatch "^([^:]+|[[].*[]]):[0-9]+$" $server }}
        {{- $port = int (regexFind "[0-9]+$" $server) }}
        {{- end }}
        {{- $ports = append $ports $port }}
        {{- end }}
        {{- range uniq $ports }}
        - {port: {{ . }}, protocol: UDP}
        - {port: {{ . }}, protocol: TCP}
        {{- end }}
    {{- end }}
{{- end }}
