// Command envoy asks Envoy Gateway what an Envoy would: over the aggregated, incremental stream of xDS, with a proxy's certificate. It prints
// a JSON object with a text for each cluster, which is what Envoy calls the servers of one rule of a route, and ends. The text has the endpoints,
// each with its zone, if it is said, its health, unless that is UNKNOWN, and its priority, unless that is 0. Settings follow: how many endpoints
// the proxy's own zone must have to be used alone, and how many requests a connection may carry, if there are such bounds. It has no settings that Envoy hasn't: the node's ID and cluster are Envoy's flags
// --service-node and --service-cluster.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	leastrequestv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/least_request/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/anypb"
)

// The kinds that it asks for.
const (
	clusterKind    = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	assignmentKind = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
)

// patience is how long it waits for all that it asks for.
const patience = 10 * time.Second

func main() {
	address := flag.String("address", "127.0.0.1:18000", "the address of the xDS server")
	certs := flag.String("certs", "", "a folder with ca.crt, tls.crt and tls.key")
	id := flag.String("node", "", "the node's ID")
	cluster := flag.String("cluster", "", "the node's cluster")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := run(ctx, *address, *certs, &corev3.Node{Id: *id, Cluster: *cluster}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // the deferred call only frees what ends with the process
	}
}

func run(ctx context.Context, address, certs string, node *corev3.Node) error {
	config, err := tlsConfig(certs)
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		return fmt.Errorf("open a stream to %s: %w", address, err)
	}
	all, err := read(s, node)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(all)
}

// tlsConfig returns the configuration of a proxy's connection.
func tlsConfig(certs string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(certs, "tls.crt"), filepath.Join(certs, "tls.key"))
	if err != nil {
		return nil, err
	}
	authority, err := os.ReadFile(filepath.Join(certs, "ca.crt"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%s has no certificate", filepath.Join(certs, "ca.crt"))
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, ServerName: "envoy-gateway", RootCAs: pool, Certificates: []tls.Certificate{pair}}, nil
}

// stream carries requests and answers of all kinds.
type stream = discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient

// read asks for all clusters, and then for their endpoints.
func read(s stream, node *corev3.Node) (map[string]string, error) {
	if err := s.Send(&discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: clusterKind}); err != nil {
		return nil, err
	}
	clusters, err := receive(s, clusterKind)
	if err != nil {
		return nil, fmt.Errorf("receive clusters: %w", err)
	}
	settings, all := map[string]string{}, map[string]string{}
	for _, resource := range clusters {
		var c clusterv3.Cluster
		if err := resource.UnmarshalTo(&c); err != nil {
			return nil, err
		}
		if settings[c.GetName()], err = settingsOf(&c); err != nil {
			return nil, fmt.Errorf("cluster %s: %w", c.GetName(), err)
		}
	}
	if len(settings) == 0 {
		return all, nil
	}
	request := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: assignmentKind, ResourceNamesSubscribe: slices.Collect(maps.Keys(settings))}
	if err := s.Send(request); err != nil {
		return nil, err
	}
	for len(all) < len(settings) {
		assignments, err := receive(s, assignmentKind)
		if err != nil {
			return nil, fmt.Errorf("receive endpoints, with those of %d of %d clusters: %w", len(all), len(settings), err)
		}
		for _, resource := range assignments {
			var a endpointv3.ClusterLoadAssignment
			if err := resource.UnmarshalTo(&a); err != nil {
				return nil, err
			}
			all[a.GetClusterName()] = endpointsOf(&a) + settings[a.GetClusterName()]
		}
	}
	return all, nil
}

// receive returns the resources of the next answer of a kind. Changes of another kind, which the server may have sent meanwhile, are for the
// next run.
func receive(s stream, kind string) ([]*anypb.Any, error) {
	for {
		resp, err := s.Recv()
		if err != nil {
			return nil, err
		}
		if resp.GetTypeUrl() != kind {
			continue
		}
		var all []*anypb.Any
		for _, r := range resp.GetResources() {
			all = append(all, r.GetResource())
		}
		return all, nil
	}
}

func settingsOf(c *clusterv3.Cluster) (text string, err error) {
	policies := c.GetLoadBalancingPolicy().GetPolicies()
	if len(policies) != 1 {
		return "", errors.New("it has several load balancing policies, or none; want one")
	}
	var balance leastrequestv3.LeastRequest
	if err := policies[0].GetTypedExtensionConfig().GetTypedConfig().UnmarshalTo(&balance); err != nil {
		return "", err
	}
	if n := balance.GetLocalityLbConfig().GetZoneAwareLbConfig().GetForceLocalZone().GetMinSize().GetValue(); n != 0 {
		text += fmt.Sprintf("; its own zone, if that has %d", n)
	}
	if options := c.GetTypedExtensionProtocolOptions()["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"]; options != nil {
		var http httpv3.HttpProtocolOptions
		if err := options.UnmarshalTo(&http); err != nil {
			return "", err
		}
		if n := http.GetCommonHttpProtocolOptions().GetMaxRequestsPerConnection().GetValue(); n != 0 {
			text += fmt.Sprintf("; %d request each connection", n)
		}
	}
	return text, nil
}

func endpointsOf(a *endpointv3.ClusterLoadAssignment) string {
	var all []string
	for _, locality := range a.GetEndpoints() {
		for _, e := range locality.GetLbEndpoints() {
			at := e.GetEndpoint().GetAddress().GetSocketAddress()
			text := net.JoinHostPort(at.GetAddress(), strconv.FormatUint(uint64(at.GetPortValue()), 10))
			if zone := locality.GetLocality().GetZone(); zone != "" {
				text = zone + " " + text
			}
			if health := e.GetHealthStatus(); health != corev3.HealthStatus_UNKNOWN {
				text += " " + health.String()
			}
			if locality.GetPriority() != 0 {
				text += fmt.Sprintf(" priority %d", locality.GetPriority())
			}
			all = append(all, text)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
