package datapath

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// namespace is a network namespace. It has no name, only a descriptor here, so that the kernel removes it with the last of this
// process, what it started in it and their sockets: a test that is killed leaves nothing behind.
type namespace struct{ file *os.File }

// newNamespace makes a namespace whose loopback interface is up.
func newNamespace() (*namespace, error) {
	n := &namespace{}
	err := elsewhere(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return os.NewSyscallError("unshare", err)
		}
		var err error
		n.file, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("make a network namespace: %w", err)
	}
	if err := n.run("ip link set lo up"); err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

// do runs f in the namespace. Sockets that f makes, and processes that it starts, stay in it.
func (n *namespace) do(f func() error) error {
	return elsewhere(func() error {
		if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return os.NewSyscallError("setns", err)
		}
		return f()
	})
}

// elsewhere runs f, which may take its thread to another namespace, and brings the thread back. It can't just let the thread
// end: the kernel kills the children that were started on it, whichever goroutine ran there then (see process.WithoutOrphans).
func elsewhere(f func() error) error {
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer func() {
		if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
			panic(os.NewSyscallError("setns", err)) // it is where we come from
		}
		_ = home.Close()
		runtime.UnlockOSThread()
	}()
	return f()
}

// run runs commands in the namespace, a line each, as far as they succeed.
func (n *namespace) run(commands string) error {
	return n.do(func() error {
		for line := range strings.Lines(commands) {
			words := strings.Fields(line)
			if len(words) == 0 {
				continue
			}
			if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, out)
			}
		}
		return nil
	})
}

// set writes the namespace's kernel settings, as "net/ipv4/ip_forward=1".
func (n *namespace) set(settings ...string) error {
	return n.do(func() error {
		for _, s := range settings {
			name, value, _ := strings.Cut(s, "=")
			if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0); err != nil {
				return err
			}
		}
		return nil
	})
}

// path is a file by which other processes find the namespace while this one runs.
func (n *namespace) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.file.Fd()) }

func (n *namespace) close() { _ = n.file.Close() }
