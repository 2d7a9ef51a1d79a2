package process

import "testing"

func TestDataRace(t *testing.T) {
	const (
		ends  = "\n==================\n"
		known = "WARNING: DATA RACE\nWrite at 0x1 by goroutine 9:\n  k8s.io/klog/v2.SetLogger()\n  github.com/coredns/coredns/plugin/kubernetes.setup()"
		other = "WARNING: DATA RACE\nWrite at 0x1 by goroutine 9:\n  k8s.io/klog/v2.SetLogger()\n  github.com/clusterset/clusterset/plugin.setup()"
	)
	for output, want := range map[string]string{
		"":                                  "",
		"ready\n":                           "",
		"ready\n" + known + ends + "more":   "",
		known + ends + known + ends:         "",
		"ready\n" + other + ends + "more":   other,
		known + ends + other + ends + "end": other,
		other:                               other,
	} {
		if got := DataRace(output); got != want {
			t.Errorf("%q: got %q, want %q", output, got, want)
		}
	}
}
