package chart

import (
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
)

// `helm lint` reports only that the chart has no icon.
func TestLint(t *testing.T) {
	for _, m := range lint.RunAll(chartDir, nil, "clusterset-system").Messages {
		if m.Severity > support.InfoSev {
			t.Error(m)
		}
	}
}
