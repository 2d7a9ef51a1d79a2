package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// cpuOf returns the processor time that a process has used. On a busy machine it says more than the clock does. It is 0
// where there is no /proc.
func cpuOf(pid int) time.Duration {
	_, used := stat(fmt.Sprintf("/proc/%d/stat", pid))
	return used
}

// cpuOfAll returns the processor time that all our children that run have used: API servers, etcds, and who calls them.
func cpuOfAll() time.Duration {
	var sum time.Duration
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range paths {
		if parent, used := stat(path); parent == os.Getpid() {
			sum += used
		}
	}
	return sum
}

// stat reads a process's parent and used processor time (proc_pid_stat(5)).
func stat(path string) (parent int, used time.Duration) {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, 0 // it has ended
	}
	_, rest, _ := strings.Cut(string(content), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, 0
	}
	parent, _ = strconv.Atoi(fields[1])
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return parent, time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100 on Linux
}

// loadAverage is how many processes wanted a processor during the last minute, empty where nobody says.
func loadAverage() string {
	content, _ := os.ReadFile("/proc/loadavg")
	last, _, _ := strings.Cut(string(content), " ")
	return last
}
