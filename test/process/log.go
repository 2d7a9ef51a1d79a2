package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// DataRace returns the first report of the race detector in a program's output, or "" if there is none. The program itself goes on, and
// its exit code, which says that there was one, is lost if it is killed. One of CoreDNS's own doesn't count: its plugin kubernetes sets the
// logger of client-go at each reload, while that uses it.
func DataRace(output string) string {
	const begin = "WARNING: DATA RACE"
	for _, report := range strings.Split(output, begin)[1:] {
		report, _, _ = strings.Cut(report, "\n==================")
		if !strings.Contains(report, "klog/v2.SetLogger()") || !strings.Contains(report, "coredns/plugin/kubernetes.setup()") {
			return begin + report
		}
	}
	return ""
}

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
