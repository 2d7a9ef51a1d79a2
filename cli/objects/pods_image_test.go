package objects

import "testing"

func TestImageTag(t *testing.T) {
	for image, want := range map[string][2]string{
		"clusterset/clusterset:v1.2.3": {"v1.2.3"}, "registry:5000/clusterset:v1.2.3": {"v1.2.3"}, "registry:5000/clusterset": {},
		"clusterset/clusterset:v1.2.3@sha256:00": {"v1.2.3", "sha256:00"}, "clusterset/clusterset@sha256:00": {"", "sha256:00"},
	} {
		if tag, digest := ImageTag(image); tag != want[0] || digest != want[1] {
			t.Errorf("%s: %q, %q, want %q", image, tag, digest, want)
		}
	}
}
