package clusterset_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A write to a full disk leaves the file empty or cut off. The server keeps the file's last good content until the file can be
// read again.
func TestAFullDiskKeepsTheLastGoodState(t *testing.T) {
	disk := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("a file system of its own takes the right to mount one: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	d := serveManifestsAt(t, disk, map[string][]byte{"a.yaml": vipYAML("a", "10.0.0.1"), "b.json": vipJSON("b", "10.0.1.1", 1)})
	d.expect(t, map[string]string{nameOf("a"): "10.0.0.1", nameOf("b"): "10.0.1.1"})
	stop := d.askAlong(t, map[string][]string{nameOf("a"): {"10.0.0.1"}, nameOf("b"): {"10.0.1.1"}})
	ballast := fill(t, filepath.Join(disk, "ballast"))
	// b.json is cut off, because only the space of its old content is free.
	d.writeInVain(t, "b.json", vipJSON("b", "10.0.1.2", 1000))
	d.log.expect(t, "b.json", "what b.json last held is still served")
	// a.yaml stays empty, because another file has also taken its old space.
	if err := os.Truncate(filepath.Join(disk, "a.yaml"), 0); err != nil {
		t.Fatal(err)
	}
	more := fill(t, filepath.Join(disk, "more"))
	d.writeInVain(t, "a.yaml", vipYAML("a", "10.0.0.2"))
	d.log.expect(t, "a.yaml: empty", "what a.yaml last held is still served", "remove the file")
	stop()
	d.expect(t, map[string]string{nameOf("a"): "10.0.0.1", nameOf("b"): "10.0.1.1"})
	for _, path := range []string{ballast, more} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	d.write(t, "a.yaml", vipYAML("a", "10.0.0.2"))
	d.write(t, "b.json", vipJSON("b", "10.0.1.2", 1))
	d.expect(t, map[string]string{nameOf("a"): "10.0.0.2", nameOf("b"): "10.0.1.2"})
}

// vipJSON returns a ServiceImport with the given number of ports.
func vipJSON(name, ip string, ports int) []byte {
	port := `{"name": "p%d", "port": %d, "protocol": "TCP"}`
	all := fmt.Sprintf(port, 0, 1)
	for i := 1; i < ports; i++ {
		all += ", " + fmt.Sprintf(port, i, i+1)
	}
	return fmt.Appendf(nil, `{"apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport", `+
		`"metadata": {"name": %q, "namespace": "shop"}, "spec": {"type": "ClusterSetIP", "ips": [%q], "ports": [%s]}}`, name, ip, all)
}

// writeInVain writes a file and expects that the disk is full.
func (d *manifestsDir) writeInVain(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(d.dir, name), data, 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk isn't full: %v", err)
	}
}

// fill writes a file until the disk is full, and returns its path.
func fill(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for {
		if _, err := f.Write(make([]byte, 4096)); errors.Is(err, syscall.ENOSPC) {
			return path
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
