package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// LogSince returns the last lines that a log has after an offset, preceded by the file's name.
func LogSince(path string, from int64, lines int) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	b = b[min(from, int64(len(b))):]
	all := bytes.Split(bytes.TrimRight(b, "\n"), []byte("\n"))
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return fmt.Sprintf("--- %s\n    %s", filepath.Base(path), bytes.Join(all, []byte("\n    ")))
}
