// Package records makes the hub's records of a service from manifests, for the importer's tests.
package records

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/door"
)

// Scheme knows the kinds of the records, of the Leases beside them, and of the objects that the importer makes from them.
var Scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, coordinationv1.AddToScheme, discoveryv1.AddToScheme, mcsv1beta1.Install, clustersetv1alpha1.AddToScheme, fabedgev1alpha1.AddToScheme,
	} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}()

// Exported returns the manifests of a cluster's records of a ClusterSetIP service with one cluster IP and one endpoint.
func Exported(from, ns, name, clusterIP, endpoint string) string {
	return fmt.Sprintf(`
apiVersion: clusterset.dev/v1alpha1
kind: ExportedService
metadata: {namespace: clusterset-member-%[1]s, name: %[3]s.%[2]s}
spec:
  serviceNamespace: %[2]s
  serviceName: %[3]s
  type: ClusterSetIP
  clusterIPs: [%[4]s]
  ipFamilies: [IPv4]
  ports: [{name: http, port: 80}]
  exportedAt: 2026-01-01T00:00:00Z
  revision: 1767225600000
  endpoints: [x-0]
  withdrawn: false
---
apiVersion: clusterset.dev/v1alpha1
kind: ExportedEndpoints
metadata: {namespace: clusterset-member-%[1]s, name: %[3]s.%[2]s.x-0}
spec:
  serviceNamespace: %[2]s
  serviceName: %[3]s
  addressType: IPv4
  ports: [{name: http, port: 8080}]
  endpoints: [{addresses: [%[5]s]}]
`, from, ns, name, clusterIP, endpoint)
}

// Service is the importer's input for a service, with its records as they are on the hub. A test may change them.
type Service struct {
	desired.Input
	Services  []*clustersetv1alpha1.ExportedService
	Endpoints []*clustersetv1alpha1.ExportedEndpoints
	// Own is the state of the service in this cluster; nil means unknown.
	Own *Own
}

// Own is desired.Own with records as they would be on the hub.
type Own struct {
	ClusterIPs []string
	Endpoints  []*clustersetv1alpha1.ExportedEndpoints
	Nodes      map[string]string
}

// Compute returns the wanted objects.
func (s Service) Compute() desired.Output { return desired.Compute(s.Compact()) }

// Compact returns the input as the importer has it.
func (s Service) Compact() desired.Input {
	in := s.Input
	in.Exports, in.Endpoints = nil, nil
	for _, e := range s.Services {
		in.Exports = append(in.Exports, door.CompactService(e, time.Now()))
	}
	for _, e := range s.Endpoints {
		in.Endpoints = append(in.Endpoints, door.CompactEndpoints(e))
	}
	if s.Own == nil {
		return in
	}
	in.Own = &desired.Own{ClusterIPs: s.Own.ClusterIPs, Nodes: map[netip.Addr]string{}}
	for _, e := range s.Own.Endpoints {
		in.Own.Endpoints = append(in.Own.Endpoints, door.CompactEndpoints(e))
	}
	for address, node := range s.Own.Nodes {
		in.Own.Nodes[netip.MustParseAddr(address)] = node
	}
	return in
}

// Input returns the importer's input for the service shop/web: the records and MemberClusters in the manifests, and the
// current derived Service if they contain one.
func Input(t *testing.T, path desired.DataPath, text ...string) Service {
	t.Helper()
	in := Service{Input: desired.Input{
		Key:      types.NamespacedName{Namespace: "shop", Name: "web"},
		DataPath: path,
		Members:  map[string]*clustersetv1alpha1.MemberCluster{},
	}}
	for _, o := range Decode(t, strings.Join(text, "\n---\n")) {
		switch o := o.(type) {
		case *clustersetv1alpha1.ExportedService:
			in.Services = append(in.Services, o)
		case *clustersetv1alpha1.ExportedEndpoints:
			in.Endpoints = append(in.Endpoints, o)
		case *clustersetv1alpha1.MemberCluster:
			in.Members[o.Name] = o
		case *corev1.Service:
			in.Derived = o
		default:
			t.Fatalf("%T is no input", o)
		}
	}
	return in
}

// Routed reports whether kube-proxy reads a slice.
func Routed(s *discoveryv1.EndpointSlice) bool {
	_, hidden := s.Labels[corev1.IsHeadlessService]
	return !hidden && s.Labels[discoveryv1.LabelServiceName] != ""
}

// Decode returns the objects in a manifest.
func Decode(t testing.TB, text string) []client.Object {
	t.Helper()
	decoder := serializer.NewCodecFactory(Scheme).UniversalDeserializer()
	docs := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	var all []client.Object
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(bytes.TrimSpace(doc)) == 0 {
			continue
		}
		o, _, err := decoder.Decode(doc, nil, nil)
		if err != nil {
			t.Fatalf("decode: %v\n%s", err, doc)
		}
		all = append(all, o.(client.Object))
	}
}
