package cli

import (
	"testing"

	"github.com/clusterset/clusterset/internal/version"
)

// A release tests with its own image, by a name that has its registry, because some nodes complete no short names. Another build has no image.
func TestDefaultImage(t *testing.T) {
	was := version.String
	defer func() { version.String = was }()
	for is, want := range map[string]string{"v1.2.3": "docker.io/clusterset/clusterset:v1.2.3", "(devel)": "", "v1.2.3-0.20260102030405-abcdef": ""} {
		version.String = func() string { return is }
		if got := defaultImage(); got != want {
			t.Errorf("%s: %q, want %q", is, got, want)
		}
	}
}
