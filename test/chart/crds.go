package chart

import (
	"fmt"

	mcscrd "sigs.k8s.io/mcs-api/config/crd"

	"github.com/clusterset/clusterset/api/crds"
)

// CRDs are the CustomResourceDefinitions that the chart carries, by the names of their files in its files/crds: ours, and those of
// the Multi-Cluster Services API as its module has them.
func CRDs() map[string][]byte {
	all := map[string][]byte{
		"multicluster.x-k8s.io_serviceexports.yaml": mcscrd.ServiceExportCRD,
		"multicluster.x-k8s.io_serviceimports.yaml": mcscrd.ServiceImportCRD,
	}
	for _, kind := range []string{
		"clusterset.dev_exportedendpoints", "clusterset.dev_exportedservices", "clusterset.dev_memberclusters", "dns.fabedge.io_globalservices",
	} {
		content, err := crds.FS.ReadFile(kind + ".yaml")
		if err != nil {
			panic(fmt.Sprintf("read embedded CRD: %v", err)) // it was compiled in
		}
		all[kind+".yaml"] = content
	}
	return all
}
