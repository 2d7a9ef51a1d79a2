package chart

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/clusterset/clusterset/test/kube"
)

// installsARelease builds a release and installs from it: the chart's manifests are applied, the pods use the image in the
// release's archive, and the programs of that image report the release's version.
func (c *cluster) installsARelease(t *testing.T) {
	const version = "v0.0.0-test"
	dist := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "-C", filepath.Join(root, "image"), "run", ".",
		"-version", version, "-platforms", "linux/"+runtime.GOARCH, "-o", dist)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	dir := filepath.Join(dist, version)
	image := filepath.Join(dir, "clusterset-image.tar")

	rendered, err := Render(filepath.Join(dir, "clusterset-0.0.0-test.tgz"), Options{
		"clusterset", "clusterset-system", read(t, filepath.Join(chartDir, "examples", "hub-and-member.yaml")), newest,
	})
	if err != nil {
		t.Fatal(err)
	}
	all := objects(t, rendered.Manifests)
	c.Apply(t, []byte(rendered.Manifests))
	name := imageName(t, image)
	for _, component := range []string{"dns", "member", "hub"} {
		d := deployment(t, all, component)
		if got := d.Spec.Template.Spec.Containers[0].Image; got != name {
			t.Errorf("%s: the pods' image is %s, the release's is %s", component, got, name)
		}
		if got := d.Labels["app.kubernetes.io/version"]; got != version {
			t.Errorf("%s: app.kubernetes.io/version is %q, want %q", component, got, version)
		}
	}

	files := unpack(t, image)
	program := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "tar", "-xzf", filepath.Join(dir, "clusterset-linux-"+runtime.GOARCH+".tar.gz"), "-C", program).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(program, "clusterset"), "version").Output()
	if want := "clusterset " + version + " "; err != nil || !strings.HasPrefix(string(out), want) {
		t.Errorf("clusterset version: %v, %q, want %q", err, out, want)
	}
	released := *c
	released.coredns, released.clusterset = filepath.Join(files, "coredns"), filepath.Join(files, "clusterset")
	server := released.startDNS(t, all)
	agent := released.start(t, deployment(t, all, "hub"), nil)
	for address, metric := range map[string]string{
		server.metrics: `coredns_clusterset_build_info{goversion="` + runtime.Version() + `",version="` + version + `"} 1`,
		agent:          `clusterset_build_info{goversion="` + runtime.Version() + `",version="` + version + `"} 1`,
	} {
		kube.Eventually(t, func() error { return serves(address, "\n"+metric+"\n") })
	}
	if err := serves(server.metrics, `revision="clusterset-`+version+`"`); err != nil { // a label of coredns_build_info
		t.Error(err)
	}
}

func serves(address, want string) error {
	r, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		return err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err == nil && !strings.Contains(string(text), want) {
		err = fmt.Errorf("%s serves no %q", address, want)
	}
	return err
}

// imageName returns the name that docker and ctr give to the image in an archive.
func imageName(t *testing.T, archive string) string {
	t.Helper()
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(archive) })
	if err != nil || len(manifest) != 1 || len(manifest[0].RepoTags) != 1 {
		t.Fatalf("%s: %+v, %v", archive, manifest, err)
	}
	return manifest[0].RepoTags[0]
}

// unpack returns a folder with the files of the image.
func unpack(t *testing.T, archive string) string {
	t.Helper()
	image, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	flat := mutate.Extract(image)
	defer flat.Close()
	for files := tar.NewReader(flat); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(filepath.Join(dir, filepath.Base(h.Name)), os.O_CREATE|os.O_WRONLY, h.FileInfo().Mode())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(f, files); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
