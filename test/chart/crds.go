package chart

import (
	"fmt"

	mcscrd "sigs.k8s.io/mcs-api/config/crd"

	"github.com/clusterset/clusterset/api/crds"
)

// CRDs returns the CustomResourceDefinitions of the chart, by the names of their files in its files/crds: those of clusterset, and
// those of the Multi-Cluster Services API from its module.
func CRDs() map[string][]byte {
	all := map[string][]byte{
		"multicluster.x-k8s.io_serviceexports.yaml": mcscrd.ServiceExportCRD,
		"multicluster.x-k8s.io_serviceimports.yaml": mcscrd.ServiceImportCRD,
	}
	for _, kind := range []string{
		"clusterset.dev_exportedendpoints", "clusterset.dev_exportedservices", "clusterset.dev_memberclusters", "clusterset.dev_memberreports", "clusterset.dev_reachabilities", "dns.fabedge.io_globalservices",
	} {
		content, err := crds.FS.ReadFile(kind + ".yaml")
		if err != nil {
			panic(fmt.Sprintf("read embedded CRD: %v", err)) // it is compiled in
		}
		all[kind+".yaml"] = content
	}
	return all
}
