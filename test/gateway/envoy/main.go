// Command envoy asks Envoy Gateway what an Envoy would: over the aggregated, incremental stream of xDS, with a proxy's certificate. It prints
// the clusters and their endpoints as JSON, and ends. It has no settings that Envoy hasn't: the node's ID and cluster are Envoy's flags
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
	"net"
	"os"
	"path/filepath"
	"strconv"
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

// Cluster is what Envoy calls a cluster: the servers of one rule of a route.
type Cluster struct {
	Endpoints []Endpoint
	// ForceLocalZone is how many endpoints the proxy's own zone must have to be used alone. 0 means that zones don't matter.
	ForceLocalZone uint32
	// MaxRequestsPerConnection is 0 if there is no limit.
	MaxRequestsPerConnection uint32
}

// Endpoint is a server.
type Endpoint struct {
	Address, Zone, Health string
	Priority              uint32
}

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
func read(s stream, node *corev3.Node) (map[string]*Cluster, error) {
	if err := s.Send(&discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: clusterKind}); err != nil {
		return nil, err
	}
	clusters, err := receive(s, clusterKind)
	if err != nil {
		return nil, fmt.Errorf("receive clusters: %w", err)
	}
	all := map[string]*Cluster{}
	var names []string
	for _, resource := range clusters {
		var c clusterv3.Cluster
		if err := resource.UnmarshalTo(&c); err != nil {
			return nil, err
		}
		if c.GetType() != clusterv3.Cluster_EDS {
			return nil, fmt.Errorf("cluster %s is of type %s, want EDS", c.GetName(), c.GetType())
		}
		if all[c.GetName()], err = clusterOf(&c); err != nil {
			return nil, fmt.Errorf("cluster %s: %w", c.GetName(), err)
		}
		names = append(names, c.GetName())
	}
	if len(names) == 0 {
		return all, nil
	}
	if err := s.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: assignmentKind, ResourceNamesSubscribe: names}); err != nil {
		return nil, err
	}
	for missing := len(names); missing > 0; {
		assignments, err := receive(s, assignmentKind)
		if err != nil {
			return nil, fmt.Errorf("receive endpoints, with %d of %d clusters' missing: %w", missing, len(names), err)
		}
		for _, resource := range assignments {
			var a endpointv3.ClusterLoadAssignment
			if err := resource.UnmarshalTo(&a); err != nil {
				return nil, err
			}
			c := all[a.GetClusterName()]
			if c == nil {
				return nil, fmt.Errorf("endpoints of %s, which were not asked for", a.GetClusterName())
			}
			if c.Endpoints == nil {
				missing--
			}
			c.Endpoints = endpointsOf(&a)
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

func clusterOf(c *clusterv3.Cluster) (*Cluster, error) {
	policies := c.GetLoadBalancingPolicy().GetPolicies()
	if len(policies) != 1 {
		return nil, errors.New("it has several load balancing policies, or none; want one")
	}
	var balance leastrequestv3.LeastRequest
	if err := policies[0].GetTypedExtensionConfig().GetTypedConfig().UnmarshalTo(&balance); err != nil {
		return nil, err
	}
	var http httpv3.HttpProtocolOptions
	if options := c.GetTypedExtensionProtocolOptions()["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"]; options != nil {
		if err := options.UnmarshalTo(&http); err != nil {
			return nil, err
		}
	}
	return &Cluster{
		ForceLocalZone:           balance.GetLocalityLbConfig().GetZoneAwareLbConfig().GetForceLocalZone().GetMinSize().GetValue(),
		MaxRequestsPerConnection: http.GetCommonHttpProtocolOptions().GetMaxRequestsPerConnection().GetValue(),
	}, nil
}

func endpointsOf(a *endpointv3.ClusterLoadAssignment) []Endpoint {
	all := []Endpoint{}
	for _, locality := range a.GetEndpoints() {
		for _, e := range locality.GetLbEndpoints() {
			at := e.GetEndpoint().GetAddress().GetSocketAddress()
			all = append(all, Endpoint{
				Address:  net.JoinHostPort(at.GetAddress(), strconv.FormatUint(uint64(at.GetPortValue()), 10)),
				Zone:     locality.GetLocality().GetZone(),
				Health:   e.GetHealthStatus().String(),
				Priority: locality.GetPriority(),
			})
		}
	}
	return all
}
