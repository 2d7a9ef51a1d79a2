package datapath

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// namespace is a network namespace. It has no name, only this file descriptor, so a test that is killed leaves nothing behind: the
// kernel removes the namespace when this process, the processes started in it and their sockets are gone.
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

// elsewhere runs f, which may move its thread to another namespace, and moves the thread back. Letting the thread end instead would
// be wrong: the kernel would kill the children that were started on it, by whichever goroutine (see process.WithoutOrphans).
func elsewhere(f func() error) error {
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer func() {
		if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
			panic(os.NewSyscallError("setns", err)) // returning to our own namespace can't fail
		}
		_ = home.Close()
		runtime.UnlockOSThread()
	}()
	return f()
}

// run runs commands in the namespace, one per line, and stops at the first that fails.
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

// set writes kernel settings of the namespace, such as "net/ipv4/ip_forward=1".
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

// path returns a file through which other processes can enter the namespace while this one runs.
func (n *namespace) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.file.Fd()) }

func (n *namespace) close() { _ = n.file.Close() }
