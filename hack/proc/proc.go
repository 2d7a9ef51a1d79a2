// Package proc reads what processes have used. On a busy machine processor time tells more than elapsed time does.
package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Tree returns a process and its running descendants.
func Tree(pid int) []int {
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		paths, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", all[i]))
		for _, path := range paths {
			text, _ := os.ReadFile(path) //nolint:gosec // of a process
			for _, word := range strings.Fields(string(text)) {
				child, _ := strconv.Atoi(word)
				all = append(all, child)
			}
		}
	}
	return all
}

// CPU returns the processor time that processes have used, those that have ended left out (proc_pid_stat(5)).
func CPU(pids ...int) (sum time.Duration) {
	for _, pid := range pids {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, rest, _ := strings.Cut(string(text), ") ")
		if fields := strings.Fields(rest); len(fields) > 12 {
			user, _ := strconv.Atoi(fields[11])
			system, _ := strconv.Atoi(fields[12])
			sum += time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100 on Linux
		}
	}
	return sum
}

// Memory returns the current and the peak resident memory of a process, in MiB (VmRSS and VmHWM in proc_pid_status(5)).
func Memory(pid int) (is, peak int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 {
			kib, _ := strconv.Atoi(fields[1])
			switch fields[0] {
			case "VmRSS:":
				is = kib / 1024
			case "VmHWM:":
				peak = kib / 1024
			}
		}
	}
	return is, peak
}
