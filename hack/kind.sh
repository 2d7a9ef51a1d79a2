#!/usr/bin/env bash
# Makes a cluster set of two kind clusters, beijing (also the hub) and shanghai: hack/kind.sh up, hack/kind.sh down.
#
# It needs docker, kind, kubectl, helm and Go. It follows the quick start, and sets up what that asks for: Pod and Service networks that don't
# overlap, and routes between the nodes to each other's pods. kind's Docker network connects the nodes.
#
# It has been checked with shellcheck only, and not been run yet: it was written where there was no Docker. Please report what doesn't work.
set -euo pipefail
cd "$(dirname "$0")/.."

version=v0.1.0 # the chart's appVersion, whose image the chart's pods run
clusters=(beijing shanghai)

# configuration prints kind's configuration of a cluster: pods in 10.$1.0.0/16, Services in 10.($1+100).0.0/16.
configuration() {
  cat <<YAML
kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
networking:
  podSubnet: 10.$1.0.0/16
  serviceSubnet: 10.$(($1 + 100)).0.0/16
nodes:
  - role: control-plane
  - role: worker
YAML
}

# nodes prints name, address and pod network of each node of a cluster.
nodes() {
  kubectl --context "kind-$1" get nodes -o \
    jsonpath='{range .items[*]}{.metadata.name} {.status.addresses[?(@.type=="InternalIP")].address} {.spec.podCIDR}{"\n"}{end}'
}

# route tells the nodes of one cluster where the pods of the other's nodes are.
route() {
  local from to address network
  while read -r from _; do
    while read -r to address network; do
      echo "$from: pods of $to, $network, are behind $address"
      docker exec "$from" ip route replace "$network" via "$address" </dev/null
    done < <(nodes "$2")
  done < <(nodes "$1")
}

install() {
  local cluster=$1 zone=$2
  shift 2
  helm upgrade --install clusterset charts/clusterset --kube-context "kind-$cluster" -n clusterset-system --create-namespace \
    --set "location.cluster=$cluster,location.zone=$zone,location.region=${zone%-*}" "$@"
}

join() {
  bin/clusterset join "$1" --rejoin --hub-context kind-beijing --context "kind-$1" --hub-server "$hub" --zone "$2" --region "${2%-*}"
}

up() {
  make build-clusterset
  make image VERSION="$version"
  local octet=10
  for cluster in "${clusters[@]}"; do
    if ! kind get clusters | grep -qx "$cluster"; then
      configuration "$octet" | kind create cluster --name "$cluster" --wait 2m --config -
    fi
    octet=$((octet + 10))
    kind load image-archive dist/clusterset-image.tar --name "$cluster"
  done
  route beijing shanghai
  route shanghai beijing

  # Pods reach the hub at its node's address. The kubeconfig has one on this machine.
  hub="https://$(kubectl --context kind-beijing get node beijing-control-plane -o \
    jsonpath='{.status.addresses[?(@.type=="InternalIP")].address}'):6443"
  install beijing cn-north-1 --set hub.enabled=true
  install shanghai cn-east-1
  join beijing cn-north-1
  join shanghai cn-east-1
  bin/clusterset status --context kind-shanghai --hub-context kind-beijing --wait
  echo "Go on with docs/quickstart.md at Export; the contexts are kind-beijing and kind-shanghai."
}

down() {
  for cluster in "${clusters[@]}"; do
    kind delete cluster --name "$cluster"
  done
}

case "${1:-up}" in
  up) up ;;
  down) down ;;
  *)
    echo "usage: hack/kind.sh [up|down]" >&2
    exit 2
    ;;
esac
