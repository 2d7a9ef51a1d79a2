package docs

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer"
	"github.com/clusterset/clusterset/internal/manifests"
	"github.com/clusterset/clusterset/internal/merge"
	"github.com/clusterset/clusterset/plugin/express"
)

var limitRE = regexp.MustCompile(`(?m)^\| ([^|]+) \| ([0-9,]+) \|`)

// The page of limits has the numbers of the code. Limits that no package exports aren't compared.
func TestLimitsPage(t *testing.T) {
	want := map[string]int{
		"ports of a service":                                            api.MaxPorts,
		"slices of one service from one cluster":                        merge.MaxSlices,
		"endpoints of a GlobalService":                                  api.MaxGlobalServiceEndpoints,
		"exported labels, and exported annotations, of a ServiceExport": api.MaxExportedKeys,
		"services imported from one cluster":                            importer.DefaultMaxServices,
		"length of a cluster's name":                                    api.MaxMemberName,
		"zones of a MemberCluster":                                      clustersetv1alpha1.MaxZones,
		"CIDRs of a MemberCluster":                                      clustersetv1alpha1.MaxCIDRs,
		"bytes of an answer over UDP":                                   express.MaxUDP,
		"size of a manifest or state file, MiB":                         manifests.MaxFile >> 20,
	}
	for _, row := range limitRE.FindAllStringSubmatch(read(t, filepath.Join(root, "docs", "sizing.md")), -1) {
		if limit, ok := want[row[1]]; ok {
			if n, err := strconv.Atoi(strings.ReplaceAll(row[2], ",", "")); err != nil || n != limit {
				t.Errorf("%s: the page has %s, the code %d", row[1], row[2], limit)
			}
			delete(want, row[1])
		}
	}
	for what := range want {
		t.Errorf("the page doesn't have: %s", what)
	}
}
