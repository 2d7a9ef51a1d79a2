package importer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcscrd "sigs.k8s.io/mcs-api/config/crd"
	"sigs.k8s.io/yaml"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/mcs"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/records"
)

// What a ServiceImport lacks where its definition is older than ours, or another's. The table in docs/standards.md says the same. All else of the
// service is imported, nothing is written again and again, and after an upgrade of the definition nothing is missing. Rule C31 of
// docs/spec/control-plane.md.
func TestDefinitionsOfServiceImport(t *testing.T) {
	w := newWorld(t, kube.WithServiceCIDRs("10.96.0.0/16", "fd00:10:96::/112"))
	w.here(namespace("shop"), definition(t, 0))
	w.start(Options{})
	without := func(paths ...string) func(version map[string]any) {
		return func(version map[string]any) {
			for _, path := range paths {
				unstructured.RemoveNestedField(version, append([]string{"schema", "openAPIV3Schema", "properties"}, strings.Fields(path)...)...)
			}
		}
	}
	oneAddress := func(version map[string]any) {
		set(t, version, int64(1), "schema openAPIV3Schema properties spec properties ips maxItems")
	}
	newer := without("spec properties ipFamilies", "spec properties internalTrafficPolicy", "spec properties trafficDistribution",
		"spec properties ports items properties appProtocol")
	noSubresource := func(version map[string]any) { delete(version, "subresources") }
	var all []string // the paths of what a ServiceImport has
	for i, c := range []struct {
		definition string
		edit       []func(version map[string]any)
	}{
		{"v1alpha1 as the chart installs it", nil},
		{"`spec.ips` with `maxItems: 1`", []func(map[string]any){oneAddress}},
		{"without newer fields of `spec`", []func(map[string]any){newer, without("spec properties sessionAffinity", "spec properties sessionAffinityConfig")}},
		{"without `status.conditions`", []func(map[string]any){without("status properties conditions")}},
		{"without the status subresource", []func(map[string]any){noSubresource}},
		{"without `status`", []func(map[string]any){noSubresource, without("status")}},
		{"the first releases of the API", []func(map[string]any){oneAddress, newer, noSubresource, without("status properties conditions", "status properties endpointSliceObjects")}},
	} {
		t.Run(c.definition, func(t *testing.T) {
			w.here(definition(t, i, c.edit...))
			name := fmt.Sprint("web", i)
			w.inForce(i)
			w.onHub(fullyExported(name))
			documented := string(readFile(t, "../docs/standards.md"))
			kube.Eventually(t, func() error {
				var imported discoveryv1.EndpointSliceList
				err := w.client.List(t.Context(), &imported, client.InNamespace("shop"), client.MatchingLabels{api.LabelServiceName: name})
				if err != nil || len(imported.Items) != 1 {
					return fmt.Errorf("%d slices, %v", len(imported.Items), err)
				}
				is, _ := w.pathsOf(t, name)
				if i == 0 {
					all = is
					if missing := slices.DeleteFunc([]string{"spec.ips[1]", "status.clusters", "status.conditions"}, func(p string) bool { return slices.Contains(all, p) }); len(missing) > 0 {
						return fmt.Errorf("there is no %v", missing)
					}
					if slices.Contains(all, "status.conditions[1]") { // the records of the endpoints aren't read yet
						return fmt.Errorf("it has %v", all)
					}
				}
				if row := fmt.Sprintf("| %s | %s |", c.definition, lacking(all, is)); !strings.Contains(documented, row) {
					return fmt.Errorf("docs/standards.md lacks %s", row)
				}
				return nil
			})
			// Once all is written, a reconcile writes nothing.
			kube.Eventually(t, func() error {
				_, version := w.pathsOf(t, name)
				wrote := metric(t, "clusterset_importer_writes_total", "", "")
				w.touch(name)
				if _, again := w.pathsOf(t, name); again != version || metric(t, "clusterset_importer_writes_total", "", "") != wrote {
					return errors.New("something was written, but nothing has changed")
				}
				return nil
			})
		})
	}
	t.Run("upgraded", func(t *testing.T) {
		w.here(definition(t, 99))
		w.inForce(99)
		for i := range 7 {
			name := fmt.Sprint("web", i)
			w.touch(name)
			kube.Eventually(t, func() error {
				if is, _ := w.pathsOf(t, name); lacking(all, is) != "nothing" || len(is) != len(all) {
					return fmt.Errorf("%s lacks %s, and has %v", name, lacking(all, is), is)
				}
				return nil
			})
		}
	})
}

// touch lets the importer reconcile a service of which nothing has changed.
func (w *world) touch(name string) {
	w.t.Helper()
	done := reconciles(w.t)
	patch := client.RawPatch(types.MergePatchType, []byte(fmt.Sprintf(`{"metadata":{"annotations":{"touched":"%v"}}}`, done)))
	kube.Eventually(w.t, func() error {
		var slices discoveryv1.EndpointSliceList // a record that says the same would change nothing
		if err := w.client.List(w.t.Context(), &slices, client.InNamespace("shop"), client.MatchingLabels{api.LabelServiceName: name}); err != nil || len(slices.Items) == 0 {
			return fmt.Errorf("%s has %d slices, %v", name, len(slices.Items), err)
		}
		return w.client.Patch(w.t.Context(), &slices.Items[0], patch) // the slice of a service without endpoints goes when these come
	})
	kube.Eventually(w.t, func() error {
		if reconciles(w.t) == done {
			return errors.New("nothing was worked on")
		}
		return nil
	})
}

// lacking returns what is in all and not in is, without what lacks as a part of something else.
func lacking(all, is []string) string {
	var lacks []string
	for _, path := range all {
		part := slices.ContainsFunc(lacks, func(whole string) bool {
			return strings.HasPrefix(path, whole+".") || strings.HasPrefix(path, whole+"[")
		})
		if !part && !slices.Contains(is, path) {
			lacks = append(lacks, path)
		}
	}
	if len(lacks) == 0 {
		return "nothing"
	}
	return "`" + strings.Join(lacks, "`, `") + "`"
}

// definition returns version v1alpha1 of the definition of ServiceImport, changed, and with a field of that number.
func definition(t *testing.T, number int, edit ...func(map[string]any)) string {
	t.Helper()
	crd := map[string]any{}
	if err := yaml.Unmarshal(mcscrd.ServiceImportCRD, &crd); err != nil {
		t.Fatal(err)
	}
	versions, _, _ := unstructured.NestedSlice(crd, "spec", "versions")
	version := versions[0].(map[string]any)
	version["storage"] = true
	set(t, version, map[string]any{"type": "string", "default": fmt.Sprint(number)}, "schema openAPIV3Schema properties spec properties number")
	for _, f := range edit {
		f(version)
	}
	set(t, crd, []any{version}, "spec versions")
	manifest, err := yaml.Marshal(crd)
	if err != nil {
		t.Fatal(err)
	}
	return string(manifest)
}

func set(t *testing.T, in map[string]any, to any, path string) {
	t.Helper()
	if err := unstructured.SetNestedField(in, to, strings.Fields(path)...); err != nil {
		t.Fatal(err)
	}
}

// inForce waits until the API server follows the definition of that number.
func (w *world) inForce(number int) {
	w.t.Helper()
	kube.Eventually(w.t, func() error {
		trial := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"type": "Headless", "ports": []any{}}}}
		trial.SetGroupVersionKind(mcs.Version("v1alpha1").Kind("ServiceImport"))
		trial.SetNamespace("shop")
		trial.SetName("trial")
		err := w.client.Create(w.t.Context(), trial, client.DryRunAll)
		if is, _, _ := unstructured.NestedString(trial.Object, "spec", "number"); is != fmt.Sprint(number) {
			return fmt.Errorf("definition %q is in force, %v", is, err)
		}
		return nil
	})
}

// fullyExported is a service that sets every field of a ServiceImport.
func fullyExported(name string) string {
	return strings.NewReplacer(
		"clusterIPs: [10.1.0.1]", "clusterIPs: [10.1.0.1, 'fd00::1']", "[IPv4]", "[IPv4, IPv6]", "port: 80}", "port: 80, appProtocol: http}",
		"  exportedAt:", "  sessionAffinity: ClientIP\n  sessionAffinityConfig: {clientIP: {timeoutSeconds: 60}}\n  internalTrafficPolicy: Cluster\n"+
			"  trafficDistribution: PreferClose\n  exportedAt:",
	).Replace(records.Exported("baoding", "shop", name, "10.1.0.1", "10.11.0.5"))
}

// pathsOf returns the paths of the values in a ServiceImport's spec and status, sorted, and its resource version.
func (w *world) pathsOf(t *testing.T, name string) (paths []string, version string) {
	t.Helper()
	imp := mcs.Version("v1alpha1").NewImport()
	if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, imp); err != nil {
		t.Fatal(err)
	}
	whole, err := runtime.DefaultUnstructuredConverter.ToUnstructured(imp)
	if err != nil {
		t.Fatal(err)
	}
	var walk func(path string, value any)
	walk = func(path string, value any) {
		paths = append(paths, path)
		switch value := value.(type) {
		case map[string]any:
			for key, v := range value {
				walk(path+"."+key, v)
			}
		case []any:
			for i, v := range value {
				walk(fmt.Sprintf("%s[%d]", path, i), v)
			}
		}
	}
	for _, key := range []string{"spec", "status"} {
		walk(key, whole[key])
	}
	slices.Sort(paths)
	return paths, imp.GetResourceVersion()
}
