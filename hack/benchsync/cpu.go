package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// cpuOf returns the processor time that a process has used, or 0 if there is no /proc. On a busy machine it tells more than elapsed time
// does.
func cpuOf(pid int) time.Duration {
	_, used := stat(fmt.Sprintf("/proc/%d/stat", pid))
	return used
}

// cpuOfAll returns the processor time of all our running child processes: API servers, etcds, and their clients.
func cpuOfAll() time.Duration {
	var sum time.Duration
	for _, used := range children() {
		sum += used
	}
	return sum
}

// children returns the processor time of each of our child processes, by process ID.
func children() map[int]time.Duration {
	all := map[int]time.Duration{}
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range paths {
		if parent, used := stat(path); parent == os.Getpid() {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			all[pid] = used
		}
	}
	return all
}

// servers returns the processor time and the resident memory, in MiB, of a cluster's API server and etcd.
func (b *bench) servers(cluster string) (used time.Duration, resident int) {
	for pid, of := range children() {
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		program, args, _ := strings.Cut(string(command), "\x00")
		name := filepath.Base(program)
		if (name == "kube-apiserver" || name == "etcd") && strings.Contains(args, filepath.Join(b.dir, cluster)+"/") {
			is, _ := memoryOf(pid)
			used, resident = used+of, resident+is
		}
	}
	return used, resident
}

// memoryOf returns the current and the peak resident memory of a process, in MiB (VmRSS and VmHWM in proc_pid_status(5)).
func memoryOf(pid int) (is, peak int) {
	content, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(content)) {
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

// stat returns the parent of a process and the processor time that it has used (proc_pid_stat(5)).
func stat(path string) (parent int, used time.Duration) {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, 0 // the process has ended
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

// loadAverage returns the load average of the last minute, or "" if that is unknown.
func loadAverage() string {
	content, _ := os.ReadFile("/proc/loadavg")
	last, _, _ := strings.Cut(string(content), " ")
	return last
}
