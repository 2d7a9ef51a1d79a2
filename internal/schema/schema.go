// Package schema compares the definitions of our kinds on an API server with those of this version, and knows when one is being deleted. An API
// server drops fields that its definitions lack, without an error: a service would be imported by clusters that its export leaves out.
package schema

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/api/crds"
)

// ErrTooOld is why nothing is written to a hub.
var ErrTooOld = errors.New("the hub's CustomResourceDefinitions are older than this clusterset; as an administrator, " +
	"upgrade the chart in the hub's cluster, or run clusterset join CLUSTER --hub-context HUB --context CLUSTER --rejoin --install-crds")

// pause is the time between two questions while a hub doesn't answer.
const pause = 2 * time.Second

// AwaitHub returns once the hub's definitions have all fields of ours, or an error that wraps ErrTooOld. It waits while the hub doesn't
// answer or doesn't serve our kinds.
func AwaitHub(ctx context.Context, hub *rest.Config) error {
	for {
		known, err := checkHub(ctx, hub)
		switch {
		case known:
			return err
		case apierrors.IsForbidden(err):
			log.FromContext(ctx).Info("Can't compare the hub's CustomResourceDefinitions with those of this version", "reason", err.Error())
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// CheckHub returns an error that wraps ErrTooOld if the hub's definitions lack fields of ours. If it can't tell within a few seconds, it
// returns nil.
func CheckHub(ctx context.Context, hub *rest.Config) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if known, err := checkHub(ctx, hub); known {
		return err
	}
	return nil
}

// membersOnly is the definition of ours that a hub which isn't a member doesn't have: the chart installs it in members alone.
const membersOnly = "reachabilities." + clustersetv1alpha1.GroupName

// checkHub compares the definitions of all kinds that a hub needs. known means that it could.
func checkHub(ctx context.Context, hub *rest.Config) (known bool, err error) {
	lacking, err := Lacking(ctx, hub, clustersetv1alpha1.GroupName)
	delete(lacking, membersOnly)
	if err != nil || len(lacking) < len(ours(clustersetv1alpha1.GroupName))-1 {
		return false, err
	}
	for _, name := range slices.Sorted(maps.Keys(lacking)) {
		if fields := lacking[name]; len(fields) > 0 {
			return true, fmt.Errorf("%s lacks %s, which an API server drops without an error: %w", name, strings.Join(fields[:min(3, len(fields))], ", "), ErrTooOld)
		}
	}
	return true, nil
}

// Lacking returns, for each of our kinds in a group that an API server serves, the fields that its definition lacks, parents without their
// children. It reads what the server says about itself to everyone who is authenticated.
func Lacking(ctx context.Context, server *rest.Config, group string) (map[string][]string, error) {
	client, err := discovery.NewDiscoveryClientForConfig(server)
	if err != nil {
		return nil, fmt.Errorf("set up client: %w", err)
	}
	all := ours(group)
	documents := map[string]*document{} // by version
	lacking := make(map[string][]string, len(all))
	for _, d := range all {
		for _, v := range d.Spec.Versions {
			if documents[v.Name] == nil {
				path := "/openapi/v3/apis/" + group + "/" + v.Name
				content, err := client.RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").Do(ctx).Raw()
				if err != nil && !apierrors.IsNotFound(err) {
					return nil, fmt.Errorf("get %s: %w", path, err)
				}
				documents[v.Name] = &document{}
				if err == nil {
					if err := json.Unmarshal(content, documents[v.Name]); err != nil {
						return nil, fmt.Errorf("read %s: %w", path, err)
					}
				}
			}
			if theirs, served := documents[v.Name].kind(d.Spec.Names.Kind); served {
				lacking[d.Metadata.Name] = append(lacking[d.Metadata.Name], v.Schema.OpenAPIV3Schema.lackedBy(theirs, v.Name)...)
			}
		}
	}
	return lacking, nil
}

// document is the part of an API server's OpenAPI document that we read.
type document struct {
	Components struct {
		Schemas map[string]struct {
			node
			Kinds []struct{ Kind string } `json:"x-kubernetes-group-version-kind"`
		}
	}
}

func (d *document) kind(name string) (node, bool) {
	for _, s := range d.Components.Schemas {
		if len(s.Kinds) == 1 && s.Kinds[0].Kind == name {
			return s.node, true
		}
	}
	return node{}, false
}

// definition is the part of a CustomResourceDefinition that we read.
type definition struct {
	Metadata struct{ Name string }
	Spec     struct {
		Group    string
		Names    struct{ Kind string }
		Versions []struct {
			Name   string
			Schema struct {
				OpenAPIV3Schema node `json:"openAPIV3Schema"`
			}
		}
	}
}

// ours returns this version's definitions of a group's kinds.
func ours(group string) (all []definition) {
	for _, content := range crds.All() {
		var d definition
		if err := yaml.Unmarshal(content, &d); err != nil {
			panic(fmt.Sprintf("read embedded CRD: %v", err))
		}
		if d.Spec.Group == group {
			all = append(all, d)
		}
	}
	return all
}

// node is a schema.
type node struct {
	Properties map[string]node `json:"properties"`
	Items      *node           `json:"items"`
}

// lackedBy returns the fields below path that another schema lacks. What isn't typed there, such as metadata, lacks nothing.
func (n node) lackedBy(other node, path string) (fields []string) {
	if n.Items != nil && other.Items != nil {
		return n.Items.lackedBy(*other.Items, path)
	}
	for _, name := range slices.Sorted(maps.Keys(n.Properties)) {
		if theirs, ok := other.Properties[name]; ok {
			fields = append(fields, n.Properties[name].lackedBy(theirs, path+"."+name)...)
		} else {
			fields = append(fields, path+"."+name)
		}
	}
	return fields
}

// Terminating reports whether an API server refused to create an object because the CustomResourceDefinition of its kind is being deleted, and
// all objects with it. Its answer is a 403, like that of a policy.
func Terminating(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "custom resource definition is terminating")
}
