// Command manifests renders the chart for users without Helm: one file of plain YAML with a kustomization beside it, for `kubectl
// apply -k`.
//
//	go -C test/chart run ./manifests -o ../../dist/manifests -f ../../charts/clusterset/examples/member.yaml
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/clusterset/clusterset/test/chart"
)

func main() {
	o := chart.Options{Release: "clusterset", Namespace: "clusterset-system"}
	var out, values string
	flag.StringVar(&out, "o", "", "`folder` to write to (default: standard output)")
	flag.StringVar(&values, "f", "", "values `file`")
	flag.StringVar(&o.KubeVersion, "kube-version", "v1.37.0", "`version` of the cluster")
	flag.Parse()
	if err := run(o, out, values); err != nil {
		fmt.Fprintln(os.Stderr, "manifests:", err)
		os.Exit(1)
	}
}

func run(o chart.Options, out, values string) error {
	chart.Quiet()
	if values != "" {
		content, err := os.ReadFile(values)
		if err != nil {
			return err
		}
		o.Values = string(content)
	}
	r, err := chart.Render(filepath.Join("..", "..", "charts", "clusterset"), o)
	if err != nil {
		return err
	}
	namespace := fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n", o.Namespace)
	if out == "" {
		_, err := os.Stdout.WriteString(namespace + r.Manifests)
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	const kustomization = `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [clusterset.yaml]
`
	return errors.Join(
		os.WriteFile(filepath.Join(out, "clusterset.yaml"), []byte(namespace+r.Manifests), 0o644),
		os.WriteFile(filepath.Join(out, "kustomization.yaml"), []byte(kustomization), 0o644),
	)
}
