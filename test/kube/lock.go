package kube

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/clusterset/clusterset/test/poll"
)

// lockFile takes an exclusive lock on path, and calls waiting once if another process holds it. The kernel releases the lock when its holder
// ends, so a killed build blocks nobody. The file stays: removing it would let one process lock the removed file and another a new one.
func lockFile(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	told := false
	// A blocking flock could not be interrupted when ctx ends.
	err = poll.Until(ctx, func(context.Context) error {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) && !told {
			told = true
			waiting()
		}
		return err
	})
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { _ = f.Close() }, nil
}
